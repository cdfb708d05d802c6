from mainspring.app.tui.paste import PasteDetector


def test_a_paste_without_brackets_does_not_send_its_lines() -> None:
    bursts = PasteDetector()
    bursts.key(1.0)
    bursts.key(1.001)
    assert bursts.is_pasted(waiting=3, now=1.001)
    bursts.key(1.002)
    bursts.key(1.003)
    assert bursts.is_pasted(waiting=0, now=1.003)


def test_enter_after_typing_sends() -> None:
    bursts = PasteDetector()
    for at in (1.0, 1.1, 1.25):
        bursts.key(at)
    assert not bursts.is_pasted(waiting=0, now=1.25)


def test_a_single_line_that_comes_at_once_with_its_enter_is_sent() -> None:
    bursts = PasteDetector()
    for at in range(20):
        bursts.key(1 + at / 10_000)
    assert not bursts.is_pasted(waiting=0, now=1.002)
