"""Each kind of injection prepares a site with its fault, and the same site without it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stackproof import ROOT
from stackproof.base.errors import EnvironmentMismatchError, Refusal
from stackproof.base.toml import Table
from stackproof.drill.inject import Checkout, Edit, Environment, File, HostFiles, Planted, Site, Variables
from stackproof.drill.table import Fault
from stackproof.stack import environments


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A site in an empty folder."""
    folder = tmp_path / "site"
    folder.mkdir()
    return Site(folder, Path(sys.executable))


@pytest.mark.parametrize(
    ("where", "guard"),
    [("everywhere", "if True:"), ("checks", "if in_checks():"), ("rank 1", "if in_rank(1):")],
)
def test_planted_code_is_guarded(site: Site, where: str, guard: str) -> None:
    planted = Planted("\nimport math\nfired()\n", where)
    planted.spare(site)
    assert site.code == ""
    planted.inject(site)
    assert site.code == f"{guard}\n\n    import math\n    fired()\n"
    compile(site.code, "planted", "exec")


def test_variables_are_exported(site: Site) -> None:
    variables = Variables({"OMP_NUM_THREADS": "0"})
    variables.spare(site)
    assert (site.variables, site.code) == ({}, "")
    variables.inject(site)
    assert site.variables == {"OMP_NUM_THREADS": "0"}
    assert "{'OMP_NUM_THREADS': '0'}.items() <= os.environ.items()" in site.code


def test_a_copy_of_the_checkout_is_edited(site: Site) -> None:
    text = (ROOT / "stacks/cpu/known_issues.toml").read_text(encoding="utf-8")
    Checkout((Edit("stacks/cpu/known_issues.toml", append="# more\n"),)).inject(site)
    assert site.root != ROOT
    assert (site.root / "stacks/cpu/known_issues.toml").read_text(encoding="utf-8") == f"{text}# more\n"
    assert (ROOT / "stacks/cpu/known_issues.toml").read_text(encoding="utf-8") == text


def built(folder: Path) -> Path:
    """Make an environment as `prepare` leaves it, with one package; return its interpreter."""
    packages = folder / "lib/python3.11/site-packages/thing"
    packages.mkdir(parents=True)
    (packages / "facts.py").write_text("NAME = 'thing'\n", encoding="utf-8")
    (folder / "bin").mkdir()
    (folder / "bin/python").symlink_to(Path(sys.executable).resolve())
    (folder / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n", encoding="utf-8")
    (folder / environments.STAMP).write_text('{"stack": "cpu"}', encoding="utf-8")
    return environments.python_of(folder)


def test_a_copy_of_an_environment_is_edited_and_knows_itself(site: Site, tmp_path: Path) -> None:
    site.python = built(tmp_path / "original")
    Environment((Edit("lib/python3*/site-packages/thing/facts.py", append="MORE = 1\n"),)).inject(site)
    prefix = site.folder / "environment"
    said = subprocess.run(
        [site.python, "-c", "import sys; print(sys.prefix)"], capture_output=True, text=True, timeout=60, check=True
    )
    assert said.stdout.strip() == str(prefix)
    assert "MORE" in (prefix / "lib/python3.11/site-packages/thing/facts.py").read_text(encoding="utf-8")
    assert "MORE" not in (tmp_path / "original/lib/python3.11/site-packages/thing/facts.py").read_text(encoding="utf-8")


def test_an_environment_that_was_not_built_is_refused(site: Site, tmp_path: Path) -> None:
    site.python = built(tmp_path / "original")
    (tmp_path / "original" / environments.STAMP).unlink()
    with pytest.raises(EnvironmentMismatchError, match="was not built from a lock"):
        Environment(()).inject(site)


def test_a_file_is_doctored_and_handed_over(site: Site) -> None:
    handed = File((Edit("handed.jsonl", pattern="Ada", replacement="{{name}}"),), "handed.jsonl", '{"a": "Ada"}\n')
    handed.inject(site)
    path = Path(site.words["file"])
    assert path.read_text(encoding="utf-8") == '{"a": "{{name}}"}\n'
    shutil.rmtree(site.folder)
    site.folder.mkdir()
    File((), "fixtures/drill/bench.json").spare(site)
    assert Path(site.words["file"]).read_bytes() == (ROOT / "fixtures/drill/bench.json").read_bytes()


def test_a_host_is_sound_or_wrong(site: Site) -> None:
    host = HostFiles({"/proc/a": "1", "/proc/b": "1"}, {"/proc/b": "2"}, {})
    host.spare(site)
    assert (site.folder / "host/proc/b").read_text(encoding="utf-8") == "1"
    host.inject(site)
    assert (site.folder / "host/proc/b").read_text(encoding="utf-8") == "2"
    assert (site.folder / "host/proc/a").read_text(encoding="utf-8") == "1"


def test_an_unknown_kind_is_refused() -> None:
    row = {"id": "a", "area": "time", "imitates": "b", "source": "c", "inject": {"kind": "checkouts"}}
    with pytest.raises(Refusal, match="'inject.kind' is 'checkouts' .did you mean 'checkout'"):
        Table(Path("faults.toml"), row).row(Fault)
