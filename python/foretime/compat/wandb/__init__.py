"""`import wandb` by PYTHONPATH: foretime.wandb, or the installed package (foretime.compat)."""
if __name__ == "wandb":
    import os
    import sys

    sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3)))
    from foretime.compat import take

    take(__name__)
