"""Run a real browser without a screen: Debian's Chromium, which CI installs."""

import shutil
import subprocess
from pathlib import Path

from tests.requires import skip_missing

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1000,1400",
)


def find_browser() -> str:
    """Return the path of the browser; skip the test if none is installed."""
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        skip_missing("Chromium")
    return found


def render_page(url: str, profile: Path) -> str:
    """Return the HTML of a page after its scripts have run, followed by the console output."""
    call = [find_browser(), *FLAGS, f"--user-data-dir={profile}", "--enable-logging=stderr", "--dump-dom", url]
    done = subprocess.run(call, capture_output=True, encoding="utf-8", timeout=240, check=True)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout + "\n".join(console)
