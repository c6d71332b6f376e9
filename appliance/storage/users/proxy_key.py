"""What proxies prove themselves to management with."""

import secrets

from sqlalchemy import insert, select

from appliance.storage.engine.database import Database
from appliance.storage.schema.access_tables import ProxyKeyRow

_NUM_BYTES = 32


def ensure_proxy_key(database: Database) -> bytes:
    """Return the key; draw one if there is none.

    Args:
        database: Claimed, so that no other management draws one.
    """
    with database.transaction() as session:
        key = session.scalar(select(ProxyKeyRow.key))
        if key is None:
            key = secrets.token_hex(_NUM_BYTES)
            session.execute(insert(ProxyKeyRow).values(id=1, key=key))
    return bytes.fromhex(key)
