"""Completion scripts, run by the shells that are installed."""
import shutil
import subprocess
import unittest

from program import FORETIME, ProgramTest

BASH = """
source <({foretime} completion bash)
COMP_WORDS=({words}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_foretime foretime 2>/dev/null
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
# As bashcompinit calls the function; zsh itself chooses from its answers what begins like the word.
ZSH = """
source <({foretime} completion zsh)
emulate ksh
COMP_WORDS=({words}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_foretime
print -l -- "${{COMPREPLY[@]}}"
"""


class CompletionTest(ProgramTest):
    def complete(self, shell, script, *words):
        text = script.format(foretime=FORETIME, words=" ".join(f"'{word}'" for word in ("foretime",) + words))
        return subprocess.run(shell + ["-c", text], capture_output=True, text=True, check=True).stdout.split()

    def bash(self, *words):
        return self.complete(["bash"], BASH, *words)

    def test_bash_completes_subcommands_options_and_settings(self):
        self.assertIn("train", self.bash(""))
        self.assertEqual(self.bash("leader"), ["leaderboard"])
        self.assertEqual(self.bash("data", "pack-r"), ["pack-records"])
        self.assertIn("--help", self.bash("data", "pack", "--"))
        self.assertEqual(self.bash("train", "a.yaml", "model.gat.h"), ["model.gat.heads="])
        self.assertEqual(self.bash("train", "a.yaml", "model.type", "=", "residual"), ["residual_gcn"])
        self.assertEqual(self.bash("train", "a.yaml", "optimizer.type", "="), ["adam", "adamw"])
        self.assertEqual(
            self.bash("train", "a.yaml", "trainer.device=c"), ["trainer.device=cpu", "trainer.device=cuda"]
        )
        self.assertEqual(self.bash("train", "a.yaml", "model.residual", "=", "t"), ["true"])
        self.assertEqual(self.bash("doctor", "model.ty"), [], "takes no settings")

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_fish(self):
        def fish(line):
            script = f"{FORETIME} completion fish | source; complete -C '{line}'"
            return subprocess.run(
                ["fish", "--no-config", "-c", script], capture_output=True, text=True, check=True
            ).stdout.split()

        self.assertIn("leaderboard", fish("foretime leader"))
        self.assertIn("pack-records", fish("foretime data pack-"))
        self.assertEqual(
            set(fish("foretime train a.yaml optimizer.type=a")), {"optimizer.type=adam", "optimizer.type=adamw"}
        )

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh(self):
        self.assertIn("leaderboard", self.complete(["zsh", "-f"], ZSH, "leader"))
        self.assertIn(
            "model.type=residual_gcn", self.complete(["zsh", "-f"], ZSH, "train", "a.yaml", "model.type=resid")
        )


if __name__ == "__main__":
    unittest.main()
