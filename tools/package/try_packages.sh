#!/usr/bin/env bash
# Uses installed Debian packages as a user would, then removes them and looks for what they left. For a system that may be
# thrown away, as root; `tools/package/fresh_root.sh DIR --only packages` calls it.
#
#   tools/package/try_packages.sh [WHEEL]      WHEEL: what tools/package/wheel.sh made; it is used in virtual environments as well
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
wheel=${1:-}
export DEBIAN_FRONTEND=noninteractive
id ann > /dev/null 2>&1 || useradd --create-home ann
user=/home/ann/try
rm -rf "$user"
mkdir "$user"
as_user() { su - ann -s /bin/bash -c "cd $user && set -euo pipefail && $1"; }

cat > "$user/commands.sh" << 'END'
set -euo pipefail
foretime --version
share=/usr/share/foretime
cp -r $share/samples .
mpirun -n 2 --oversubscribe --bind-to none foretime train $share/configs/quickstart.yaml trainer.steps=100
foretime export runs/quickstart model.foretime
foretime rank model.foretime samples/resnet18_conv2d/C3.npz > ranked.csv
head -n 4 ranked.csv
foretime submit $share/configs/sweeps/quickstart.yaml trainer.steps=40 run_cap=2
foretime agent --until-empty > agent.log 2>&1 || { cat agent.log; exit 1; }
foretime leaderboard
ls runs/*/attempt-1/checkpoints > /dev/null
for page in foretime foretime-train foretime-data-pack; do [[ -s /usr/share/man/man1/$page.1.gz ]]; done
source /usr/share/bash-completion/completions/foretime
complete -p foretime
END
# That the scores of Python are those of `foretime rank`, bit for bit.
cat > "$user/scores.py" << 'END'
import csv, sys
import numpy as np
import foretime
assert sys.argv[1] in foretime.__file__, foretime.__file__
for heavy in ("torch", "tvm", *sys.argv[2:]):
    try:
        __import__(heavy)
        raise SystemExit(f"{heavy} is there")
    except ImportError:
        pass
with open("ranked.csv", newline="") as file:
    lines = file.read()
rows = list(csv.DictReader(lines[lines.index("group,"):].splitlines()))
model = foretime.open("model.foretime")
group = model.read("samples/resnet18_conv2d/C3.npz")[0]
scores = model.score(group)
assert len(rows) == len(group) == 980
assert all(np.float32(row["score"]) == scores[int(row["candidate"])] for row in rows)
assert [int(row["candidate"]) for row in rows] == model.rank(scores).tolist()
print(f"Python {sys.version.split()[0]}, NumPy {np.__version__}: the scores of {len(rows)} candidates are those of foretime rank")
END
chown -R ann: "$user"
as_user "bash commands.sh"
[[ ! -d /usr/lib/python3/dist-packages/foretime ]] || as_user "python3 scores.py dist-packages"

# The wheel in a virtual environment, whose NumPy is Debian's: the examples of its pages without pandas, then with it.
if [[ -n $wheel ]]; then
  apt-get update -q > /dev/null  # images keep no lists of packages
  apt-get install -y -q --no-install-recommends python3-venv python3-numpy > /dev/null
  mkdir -p "$user/foretime/tools"
  mkdir -p "$user/foretime/tools/check" && cp "$here"/../check/{check_docs,commands_page,page_commands,promises_page}.py "$user/foretime/tools/check/"
  ln -s /usr/share/foretime/{samples,configs} "$user/foretime/"
  cp -r /usr/share/doc/foretime/docs "$user/foretime/"
  cp "$wheel" "$user/"
  chown -R ann: "$user"
  as_user "python3 -m venv --system-site-packages venv && venv/bin/pip install -q --no-index ./*.whl && venv/bin/python scores.py venv pandas"
  examples="foretime/tools/check/check_docs.py --foretime /usr/bin/foretime --python $user/venv/bin/python
    docs/how-to/python.md docs/how-to/rank-a-table.md docs/tutorials/python.md"
  as_user "python3 ${examples//$'\n'/}"
  apt-get install -y -q --no-install-recommends python3-pandas > /dev/null
  as_user "venv/bin/python -c 'import pandas' && python3 ${examples//$'\n'/}"
fi

packages=(foretime libforetime1 libforetime-dev python3-foretime)
apt-get purge -y -q "${packages[@]}"
left=$(find /usr /etc /var/lib -iname '*foretime*' -not -path '/var/lib/apt/*' 2> /dev/null || true)
[[ -z $left ]] || { echo "try_packages.sh: left behind: $left" >&2; exit 1; }
if command -v foretime; then
  echo "try_packages.sh: foretime is still in the PATH" >&2
  exit 1
fi
# The wheel needs none of the packages that these needed.
if [[ -n $wheel ]]; then
  apt-get autoremove -y -q --purge > /dev/null
  if ldconfig -p | grep -E 'libtorch|libsimdjson|libmetis'; then
    echo "try_packages.sh: libraries of the packages are still there" >&2
    exit 1
  fi
  as_user "venv/bin/python scores.py venv"
fi
echo "try_packages.sh: installed, used and removed ${packages[*]}${wheel:+ and $(basename "$wheel")}"
