"""A browser for tests: Debian's Chromium, driven by ChromeDriver through Debian's python3-selenium."""
import os
import shutil

from program import wait_until

try:
    from selenium import webdriver
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
except ImportError:
    webdriver = None


def missing():
    """Why no browser can be started; empty where one can."""
    if webdriver is None:
        return "python3-selenium is missing: tools/install-deps.sh --tests"
    for program in ("chromium", "chromedriver"):
        if not shutil.which(program):
            return f"{program} is missing: tools/install-deps.sh --tests"
    return ""


class Browser:
    """One window. What pages print as errors is kept."""

    def __init__(self, width=1280, height=900, dark=False, downloads=None):
        options = webdriver.ChromeOptions()
        for argument in (
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--force-device-scale-factor=1",
        ):
            options.add_argument(argument)
        if dark:
            options.add_argument("--force-dark-mode")
        if downloads:
            options.add_experimental_option(
                "prefs",
                {
                    "download.default_directory": str(downloads),
                    "profile.default_content_setting_values.automatic_downloads": 1,
                },
            )
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(
            service=Service(shutil.which("chromedriver"), log_path=os.devnull), options=options
        )
        self.resize(width, height)
        if dark:
            self.driver.execute_cdp_cmd(
                "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
            )

    def resize(self, width, height):
        """Also below the 500 pixels that a window has at least."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )

    def open(self, address):
        self.driver.get(address)

    def close(self):
        self.driver.quit()

    def run(self, script, *arguments):
        """What a piece of JavaScript returns."""
        return self.driver.execute_script(script, *arguments)

    def press(self, *keys):
        """Keys, to what has the focus."""
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def wait_for(self, selector):
        self.read(selector, lambda element: element.id)

    def read(self, selector, value):
        """`value` of the first element, once it is there. The page may replace it between finding and reading."""
        found = self.until(lambda: [value(element) for element in self.all(selector)[:1]])
        assert found, f"nothing matches {selector} on {self.driver.current_url}: {self.text()[:2000]}"
        return found[0]

    def text_of(self, selector):
        return self.read(selector, lambda element: element.text)

    def until(self, condition):
        """Returns what `condition` returns once that is true; its last value after the limit of all tests."""

        def ignoring_replaced_elements():
            try:
                return condition()
            except WebDriverException as error:
                if "stale" not in str(error) and "no such" not in str(error):
                    raise
                return None

        return wait_until(ignoring_replaced_elements)

    def text(self):
        return self.run("return document.body.innerText")

    def overflow(self):
        """By how many pixels the page is wider than its window."""
        return self.run("return document.documentElement.scrollWidth - innerWidth")

    def nameless(self):
        """What can be reached by keyboard and has no name, as Chromium tells it to screen readers."""
        self.driver.execute_cdp_cmd("Accessibility.enable", {})
        nodes = self.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        focusable = [
            node
            for node in nodes
            if not node.get("ignored")
            and any(one["name"] == "focusable" and one["value"].get("value") for one in node.get("properties", []))
        ]
        return [
            node["role"]["value"]
            for node in focusable
            if not node.get("name", {}).get("value", "").strip()
            and node["role"]["value"] not in ("RootWebArea", "main")
        ], len(focusable)

    def faint(self):
        """Texts whose contrast with what is behind them is below 4.5, as WCAG's level AA asks for: [contrast, text]."""
        return self.run(
            """
            const rgb = (text) => { const found = text.match(/[\\d.]+/g).map(Number); return [...found.slice(0, 3), found[3] ?? 1]; };
            const light = ([r, g, b]) => [r, g, b].map((each) => each / 255).map((each) => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4)
                .reduce((sum, each, i) => sum + each * [0.2126, 0.7152, 0.0722][i], 0);
            const behind = (element) => { for (let at = element; at; at = at.parentElement) { const color = rgb(getComputedStyle(at).backgroundColor); if (color[3] > 0) return color; } return [255, 255, 255]; };
            const found = [];
            const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
            while (texts.nextNode()) {
                const element = texts.currentNode.parentElement;
                if (!texts.currentNode.data.trim() || element.closest("noscript, title, [disabled]") || !element.checkVisibility()) continue;
                const style = getComputedStyle(element), [a, b] = [light(rgb(element.closest("svg") ? style.fill : style.color)), light(behind(element))];
                const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
                if (contrast < 4.5) found.push([contrast, texts.currentNode.data]);
            }
            return found;"""
        )

    def errors(self):
        """What pages printed as errors since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def shot(self, path, whole=True):
        """A PNG of the page, or of the window."""
        import base64

        data = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": whole, "format": "png"})[
            "data"
        ]
        path.write_bytes(base64.b64decode(data))
