from mainspring.app.tui.paste import PasteDetector


def test_paste_without_brackets_does_not_send_its_lines() -> None:
    detector = PasteDetector()
    detector.key(1.0)
    detector.key(1.001)
    assert detector.is_pasted(waiting=3, now=1.001)
    detector.key(1.002)
    detector.key(1.003)
    assert detector.is_pasted(waiting=0, now=1.003)


def test_enter_after_typing_sends() -> None:
    detector = PasteDetector()
    for at in (1.0, 1.1, 1.25):
        detector.key(at)
    assert not detector.is_pasted(waiting=0, now=1.25)


def test_single_line_burst_is_not_a_paste() -> None:
    detector = PasteDetector()
    for at in range(20):
        detector.key(1 + at / 10_000)
    assert not detector.is_pasted(waiting=0, now=1.002)


def test_slow_insertion_of_a_burst_does_not_end_the_paste() -> None:
    detector = PasteDetector()
    detector.key(1.0)
    detector.text("one\ntwo\n", 1.5)
    detector.key(1.501)
    assert detector.is_pasted(waiting=0, now=1.501)
    detector.key(1.7)
    assert not detector.is_pasted(waiting=0, now=1.7)
