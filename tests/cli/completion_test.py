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
# What a user sees who types the line and then a tab, in a terminal of its own.
ZSH = """
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'PS1=; source <({foretime} completion zsh); setopt noautomenu; LISTMAX=1000; print ready''-now'
zpty -r -m shell text '*ready-now*'
zpty -w -n shell $'{line}\\t'
sleep 2
zpty -r -t shell text '*'
print -r -- "$text"
"""


class CompletionTest(ProgramTest):
    def bash(self, *words):
        script = BASH.format(foretime=FORETIME, words=" ".join(f"'{word}'" for word in ("foretime",) + words))
        return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()

    def test_bash_completes_subcommands_options_and_settings(self):
        self.assertIn("train", self.bash(""))
        self.assertEqual(self.bash("leader"), ["leaderboard"])
        self.assertEqual(self.bash("data", "pack-"), ["pack-records"])
        self.assertIn("--help", self.bash("data", "pack", "--"))
        self.assertEqual(self.bash("train", "a.yaml", "model.gat.h"), ["model.gat.heads="])
        self.assertEqual(self.bash("train", "a.yaml", "model.type", "=", "residual"), ["residual_gcn"])
        self.assertEqual(self.bash("train", "a.yaml", "optimizer.type", "="), ["adam", "adamw"])
        self.assertEqual(self.bash("train", "a.yaml", "trainer.device=c"), ["trainer.device=cpu", "trainer.device=cuda"])
        self.assertEqual(self.bash("train", "a.yaml", "model.residual", "=", "t"), ["true"])
        self.assertEqual(self.bash("doctor", "model.ty"), [], "takes no settings")

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_fish(self):
        def fish(line):
            script = f"{FORETIME} completion fish | source; complete -C '{line}'"
            return subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True, check=True).stdout.split()
        self.assertIn("leaderboard", fish("foretime leader"))
        self.assertIn("pack-records", fish("foretime data pack-"))
        self.assertEqual(fish("foretime train a.yaml optimizer.type="), ["optimizer.type=adam", "optimizer.type=adamw"])

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh(self):
        def zsh(line):
            return subprocess.run(["zsh", "-f", "-c", ZSH.format(foretime=FORETIME, line=line)], capture_output=True, text=True).stdout
        self.assertIn("leaderboard", zsh("foretime leader"))
        self.assertIn("model.type=residual_gcn", zsh("foretime train a.yaml model.type=resid"))


if __name__ == "__main__":
    unittest.main()
