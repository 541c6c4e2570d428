import pytest

from cause.device.vault import Vault
from tests.device.vault.common import PAGE, SOURCE, name


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "vault"


@pytest.fixture
def vault(folder):
    with Vault.create(folder, SOURCE, page_bytes=PAGE) as made:
        yield made


@pytest.fixture
def closed(folder):
    """Generation 2: two keys left on page 1, then three and three added there."""
    with Vault.create(folder, SOURCE, page_bytes=PAGE) as vault:
        vault.new_keys(map(name, range(3)))
        vault.erase([name(0)])
        vault.new_keys(map(name, range(10, 13)))
        vault.new_keys(map(name, range(20, 23)))
    return folder
