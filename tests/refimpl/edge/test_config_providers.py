"""Values that settings take from files, directories and the environment, as Kafka resolves them."""

from pathlib import Path

import pytest

from refimpl.edge.server.properties import PropertiesError, properties_of, read_properties

PACKAGE = "org.apache.kafka.common.config.provider."
THREE = f"""config.providers=file, dir,env
config.providers.file.class={PACKAGE}FileConfigProvider
config.providers.dir.class={PACKAGE}DirectoryConfigProvider
config.providers.env.class={PACKAGE}EnvVarConfigProvider
"""


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "secrets.properties").write_text("password=s3cret\nthreads = 3\nagain=${env:ID}\n")
    (tmp_path / "mounted").mkdir()
    (tmp_path / "mounted" / "rack").write_text("b")
    monkeypatch.setenv("ID", "7")
    return tmp_path


def test_each_provider_gives_what_it_has(there: Path) -> None:
    found = read_properties(
        THREE
        + f"num.network.threads=${{file:{there}/secrets.properties:threads}}\n"
        + f"broker.rack=rack-${{dir:{there}/mounted:rack}}-${{env:ID}}\n"
        + "node.id=${env:ID}\n",
        "server.properties",
    )
    values = found.values
    assert (values["num.network.threads"], values["broker.rack"]) == ("3", "rack-b-7")
    assert values["node.id"] == "7"
    assert [one for one in found.warnings if "providers" in one.reason] == []
    assert found.lines["node.id"] == 7


def test_files_of_clients_are_resolved_as_well(there: Path) -> None:
    text = THREE + f"ssl.key.password=${{file:{there}/secrets.properties:password}}\n"
    assert properties_of(text, "client.properties")["ssl.key.password"] == "s3cret"


@pytest.mark.parametrize(
    "variable",
    [
        "${other:path:key}",
        "${env:HIGHWATER_HAS_NO_SUCH}",
        "${file::key}",
        "${dir:/nowhere/at/all:key}",
        "${file}",
    ],
)
def test_what_no_provider_knows_stays_as_it_is_written(variable: str, there: Path) -> None:
    assert properties_of(f"{THREE}a={variable}\n", "f")["a"] == variable


def test_a_value_is_not_resolved_again(there: Path) -> None:
    text = f"{THREE}a=${{file:{there}/secrets.properties:again}}\n"
    assert properties_of(text, "f")["a"] == "${env:ID}"


def test_without_providers_nothing_is_resolved(there: Path) -> None:
    assert properties_of("a=${env:ID}\n", "f") == {"a": "${env:ID}"}


def test_only_allowed_paths_and_names_are_read(there: Path) -> None:
    mounted, file = there / "mounted", there / "secrets.properties"
    text = (
        f"{THREE}config.providers.dir.param.allowed.paths={mounted},{file}\n"
        f"config.providers.file.param.allowed.paths={mounted}\n"
        "config.providers.env.param.allowlist.pattern=KAFKA_.*\n"
        f"a=${{dir:{mounted}:rack}}\n"
        f"b=${{file:{file}:password}}\n"
        f"c=${{file:{mounted}/../secrets.properties:password}}\n"
        "d=${env:ID}\n"
    )
    found = properties_of(text, "f")
    assert found["a"] == "b"
    assert found["b"] == f"${{file:{file}:password}}"
    assert found["c"] == f"${{file:{mounted}/../secrets.properties:password}}"
    assert found["d"] == "${env:ID}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("config.providers=x\n", ":1: config.providers: config.providers.x.class is needed"),
        (
            "config.providers=x\nconfig.providers.x.class=com.example.Vault\n",
            ":2: config.providers.x.class: com.example.Vault is none of ",
        ),
        (
            THREE + "broker.rack=${file:/nowhere/at/all:key}\n",
            ":5: broker.rack: ${file:/nowhere/at/all:key}: No such file or directory",
        ),
        (
            THREE + "broker.rack=${env:path:ID}\n",
            ":5: broker.rack: ${env:path:ID}: the environment has no path",
        ),
        (
            THREE + "config.providers.file.param.allowed.paths=/nowhere/at/all\n",
            ":5: config.providers.file.param.allowed.paths: /nowhere/at/all is no absolute path",
        ),
        (THREE + "node.id=${env:RACK}\n", ":5: Invalid value four for configuration node.id"),
    ],
)
def test_a_mistake_is_named_with_its_line(
    text: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RACK", "four")
    with pytest.raises(PropertiesError) as refused:
        read_properties(text, "server.properties")
    assert f"server.properties{told}" in str(refused.value)
