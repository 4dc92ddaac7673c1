#!/usr/bin/env bash
# Uses installed Debian packages as a user would, then removes them and looks for what they left. For a system that may be
# thrown away, as root; `tools/fresh_root.sh DIR --only packages` calls it.
set -euo pipefail
id ann > /dev/null 2>&1 || useradd --create-home ann
cat > /tmp/as_user.sh << 'END'
set -euo pipefail
cd "$(mktemp -d)"
foretime --version
share=/usr/share/foretime
cp -r $share/samples .
mpirun -n 2 --oversubscribe --bind-to none foretime train $share/configs/quickstart.yaml trainer.steps=100
foretime export runs/quickstart model.foretime
foretime rank model.foretime samples/resnet18_conv2d/C3.npz --top 3
foretime submit $share/configs/sweeps/quickstart.yaml trainer.steps=40 run_cap=2
foretime agent --until-empty > agent.log 2>&1 || { cat agent.log; exit 1; }
foretime leaderboard
ls runs/*/attempt-1/checkpoints > /dev/null
if [[ -d /usr/lib/python3/dist-packages/foretime ]]; then
  python3 - << 'PYTHON'
import foretime
model = foretime.open("model.foretime")
group = model.read("samples/resnet18_conv2d/C3.npz")[0]
print("Python:", foretime.__file__, model.rank(model.score(group), top=3), foretime.Run("runs/quickstart").checkpoints)
PYTHON
fi
for page in foretime foretime-train foretime-data-pack; do [[ -s /usr/share/man/man1/$page.1.gz ]]; done
source /usr/share/bash-completion/completions/foretime
complete -p foretime
END
chmod 755 /tmp/as_user.sh
su - ann -c "bash /tmp/as_user.sh"

packages=(foretime libforetime1 libforetime-dev python3-foretime)
apt-get purge -y -q "${packages[@]}"
left=$(find /usr /etc /var/lib -iname '*foretime*' -not -path '/var/lib/apt/*' 2> /dev/null || true)
[[ -z $left ]] || { echo "try_packages.sh: left behind: $left" >&2; exit 1; }
if command -v foretime; then
  echo "try_packages.sh: foretime is still in the PATH" >&2
  exit 1
fi
echo "try_packages.sh: installed, used and removed ${packages[*]}"
