"""Messages that tests expect, kept in one file for each module of tests: tests/messages/.

A test's entries are in the order of its calls. FORETIME_UPDATE_MESSAGES=1 rewrites the entries of the tests that run. The
format and the marks are those of golden.h.
"""
import fcntl
import os
import pathlib
import re
import socket
import sys
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
UPDATES = "FORETIME_UPDATE_MESSAGES" in os.environ
# What the time, the processor, the user or the version of another library decides.
CHANGING = (
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "$TIME"),
    (r"CRC-32 [0-9a-f]{8}, the manifest says [0-9a-f]{8}", "CRC-32 $CRC, the manifest says $CRC"),
    (r"\b[0-9a-f]{16}\b", "$ID"),
    (r"\bhad \d+ (bytes|MiB)", r"had $SIZE \1"),
    (r"\buses \d+ of (\d+ MiB of maxmemory) \(\d+ %\)", r"uses $SIZE of \1"),
    (r"\btakes \d+ bytes of memory", "takes $SIZE bytes of memory"),
    (r"\b\d+ (de)?compressed bytes( hold at most \d+)?", r"$SIZE \1compressed bytes"),
    (r"\{test\d+\}", "{$TEST}"),
    (r"\bin PATH \([^)]*\)", "in PATH ($FOLDERS)"),
    (r"\bthis is user \d+", "this is user $USER"),
    (r"\[json\.exception[^;\n]*", "$JSON"),
)
HINT = "FORETIME_UPDATE_MESSAGES=1 rewrites the file."


def marked(text):
    """The text without what differs between runs."""
    program = os.environ.get("FORETIME")
    build = pathlib.Path(program).resolve().parents[1] if program else TESTS.parent
    if (build / "CMakeCache.txt").exists():
        text = text.replace(str(build), "$BUILD")
    text = text.replace(str(TESTS.parent), "$SOURCE")
    for folder in sorted({tempfile.gettempdir(), "/tmp"}, key=len, reverse=True):
        text = re.sub(rf"(?<!\w)(?<![^/]/){re.escape(folder)}/[^\s/:;,'\"`()\[\]{{}}?]+", "$TMP", text)
    text = re.sub(r"(127\.0\.0\.1|localhost|\[::1\]):\d{4,}", r"\1:$PORT", text)
    text = re.sub(r"\b(process|pid) \d{2,}", r"\1 $PID", text)
    text = re.sub(r"\b([Ff]oretime) \d[\d.]{4,}", r"\1 $VERSION", text)
    text = re.sub(rf"\bon {re.escape(socket.gethostname())}(?![A-Za-z0-9])", "on $HOST", text)
    text = re.sub(rf"\({re.escape(socket.gethostname())}(?![A-Za-z0-9])", "($HOST", text)
    for pattern, by in CHANGING:
        text = re.sub(pattern, by, text)
    text = re.sub(r"[\x00-\x09\x0b-\x1f\x7f]", lambda match: f"\\x{ord(match.group()):02x}", text)
    return text.rstrip("\n")


def parse(text):
    entries, messages = {}, None
    for line in text.split("\n"):
        if line.startswith("- ") and messages is not None:
            messages.append(line[2:])
        elif line.startswith("  ") and messages:
            messages[-1] += "\n" + line[2:]
        elif line:
            messages = entries.setdefault(line, [])
    return entries


def text_of(entries):
    parts = (
        "".join([test + "\n", *("- " + message.replace("\n", "\n  ") + "\n" for message in messages)])
        for test, messages in sorted(entries.items())
        if messages
    )
    return "\n".join(parts)


def last_message(text):
    """What a program said last: from the last line that begins with its name to the end, or the whole text."""
    begins = [match.start() for match in re.finditer(r"^foretime: ", text, re.MULTILINE)]
    return text[begins[-1] :] if begins else text


class MessageTest(unittest.TestCase):
    """A test that compares messages with the file of its module."""

    def run(self, result=None):
        self.messages_found = []
        self.addCleanup(self.end_of_messages)
        return super().run(result)

    def expect_message(self, text, *places):
        """The text contains each place, such as a file and a field, and its last message is the test's next entry."""
        for place in places:
            self.assertIn(str(place), text)
        message = marked(last_message(text))
        self.assertTrue(message, "found no message")
        self.messages_found.append(message)
        if UPDATES:
            return
        expected = self.expected_messages()
        count = len(self.messages_found)
        self.assertLessEqual(
            count,
            len(expected),
            f"{self.messages_file().name} has no message {count} of this test; found\n{message}\n{HINT}",
        )
        self.assertEqual(expected[count - 1], message, f"message {count} of {self.messages_file().name}. {HINT}")

    def end_of_messages(self):
        """Rewrites the test's entries, or finds those that were not used."""
        if not getattr(self._outcome, "success", True):  # a test that failed or was skipped ended early
            return
        if UPDATES:
            self.update_messages()
        else:
            self.assertEqual(
                len(self.messages_found),
                len(self.expected_messages()),
                f"messages of {self.messages_file().name}. {HINT}",
            )

    def messages_file(self):
        module = pathlib.Path(sys.modules[type(self).__module__].__file__).resolve().relative_to(TESTS).with_suffix("")
        return TESTS / "messages" / ("_".join(module.parts).removesuffix("_test") + ".txt")

    def messages_name(self):
        return f"{type(self).__name__}.{self._testMethodName}"

    def expected_messages(self):
        file = self.messages_file()
        entries = parse(file.read_text()) if file.exists() else {}
        lost = [test for test in entries if not self.is_test(test)]
        self.assertFalse(lost, f"{file.name} has messages of tests that do not exist. {HINT}")
        return entries.get(self.messages_name(), [])

    def is_test(self, name):
        case, _, method = name.partition(".")
        return hasattr(getattr(sys.modules[type(self).__module__], case, None), method)

    def update_messages(self):
        file = self.messages_file()
        if not self.messages_found and not file.exists():
            return
        with open(file, "a+", encoding="utf-8") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            stream.seek(0)
            entries = {test: messages for test, messages in parse(stream.read()).items() if self.is_test(test)}
            entries[self.messages_name()] = self.messages_found
            stream.truncate(0)
            stream.write(text_of(entries))
