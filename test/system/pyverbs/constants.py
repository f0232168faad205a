# SPDX-License-Identifier: BSD-3-Clause
"""The constants of libibverbs in pyverbs of any rdma-core: e.IBV_QPT_RC. Later ones have them in enumerations."""
import enum
import types

try:
    import pyverbs.enums as e
except ImportError:
    import pyverbs.libibverbs_enums
    e = types.SimpleNamespace(**{name: int(member) for kind in vars(pyverbs.libibverbs_enums).values()
                                 if isinstance(kind, enum.EnumMeta) for name, member in kind.__members__.items()})
