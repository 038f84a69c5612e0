"""Build the compiled loops, the one part of the package that is not Python; all else is in pyproject.toml."""

import sysconfig

from setuptools import Extension, setup

# One binary serves every version from 3.11 on. An interpreter without the global lock has no stable interface.
STABLE = not sysconfig.get_config_var("Py_GIL_DISABLED")
WINDOWS = sysconfig.get_platform().startswith("win")

LOOPS = Extension(
    "postrand.support._loops",
    [f"src/postrand/support/{name}.c" for name in ("_loops", "_risk_loops", "_text_loops")],
    depends=["src/postrand/support/_loops.h"],
    libraries=[] if WINDOWS else ["m"],
    define_macros=[("Py_LIMITED_API", "0x030B0000")] if STABLE else [],
    py_limited_api=STABLE,
    extra_compile_args=[] if WINDOWS else ["-O3", "-g0", "-ffp-contract=off"],
    optional=True,  # where nothing can be compiled, numba compiles the same loops when they are first called
)

setup(ext_modules=[LOOPS], options={"bdist_wheel": {"py_limited_api": "cp311"}} if STABLE else {})
