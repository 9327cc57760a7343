"""Names that run code, start processes, open files or connections, or import, when a loader obeys them.

Gathered from the documentation of the modules and from published advisories on pickle scanners. A module
listed in `MODULES` is dangerous with everything in it and below it; `NAMES` are single names; `METHODS`
are modules whose classes are harmless and whose methods, reached by a dotted name, are not. `REEXPORTED`
are modules that are dangerous in whatever module they are found as an attribute, `ATTRIBUTES` functions
that are when they are reached through another name.
"""

from __future__ import annotations

from collections.abc import Mapping

MODULES = frozenset(
    {
        # the system, processes, terminals
        *("os", "posix", "nt", "sys", "subprocess", "_posixsubprocess", "pty"),
        *("commands", "popen2", "multiprocessing", "_winapi", "msvcrt", "winreg"),
        *("ctypes", "_ctypes", "cffi", "mmap", "fcntl", "resource", "gc", "atexit"),
        # running and finding code
        *(
            "runpy",
            "code",
            "codeop",
            "importlib",
            "_frozen_importlib",
            "_frozen_importlib_external",
        ),
        *(
            "imp",
            "zipimport",
            "zipapp",
            "pkgutil",
            "pkg_resources",
            "setuptools",
            "distutils",
            "pip",
        ),
        *("_pip", "ensurepip", "venv", "site", "timeit", "profile", "cProfile"),
        *("pdb", "bdb", "trace", "doctest", "pydoc", "idlelib", "lib2to3", "_pyrepl", "py_compile"),
        *("compileall", "asyncio", "concurrent", "_thread", "thread", "sched", "turtledemo"),
        *("tkinter", "turtle", "antigravity", "this", "_aix_support", "_osx_support"),
        *("IPython", "ipykernel", "jupyter_client", "pexpect", "sh", "plumbum", "fabric", "invoke"),
        # pickles within pickles, and code that travels in a pickle
        *(
            "pickle",
            "_pickle",
            "cPickle",
            "pickletools",
            "marshal",
            "shelve",
            "joblib",
            "dill.session",
        ),
        *("cloudpickle", "jsonpickle"),
        # files
        *(
            "shutil",
            "tempfile",
            "fileinput",
            "glob",
            "tarfile",
            "zipfile",
            "dbm",
            "sqlite3",
            "_sqlite3",
        ),
        *("logging.config", "logging.handlers"),
        # the network
        *("socket", "_socket", "socketserver", "SocketServer", "ssl", "httplib"),
        *(
            "urllib2",
            "urllib.request",
            "urllib.robotparser",
            "http.client",
            "http.server",
            "urllib3",
            "requests",
            "aiohttp",
            "httpx",
            "ftplib",
            "smtplib",
            "poplib",
            "imaplib",
        ),
        *(
            "nntplib",
            "telnetlib",
            "xmlrpc",
            "xmlrpclib",
            "webbrowser",
            "cgi",
            "wsgiref",
            "paramiko",
        ),
        *("SimpleHTTPServer", "BaseHTTPServer", "botocore", "boto3"),
        # numpy and scipy
        *("numpy.f2py", "numpy.testing", "numpy.distutils", "numpy.ctypeslib"),
        *("scipy.weave", "scipy._lib._testutils"),
        # torch
        *("torch.hub", "torch.package", "torch._inductor", "torch._dynamo"),
        *("torch.utils.bottleneck", "torch.utils.collect_env", "torch.utils.cpp_extension"),
        *("torch.utils.data.datapipes", "torch.utils.model_zoo", "torch.utils._config_module"),
        *("torch.utils.benchmark", "torch.utils.model_dump"),
        *("torch._ops", "torch.ops", "torch.classes", "torch.library", "torch._functorch"),
        *("torch.fx.graph_module", "torch.fx.experimental", "torch.fx.passes"),
        *("torch.distributed.rpc", "torch.distributed.run", "torch.distributed.launch"),
        *("torch.distributed.elastic", "torch.multiprocessing", "torch.backends._nnapi"),
        *("torch.jit.unsupported_tensor_ops", "torch.jit._script", "torch.jit._serialization"),
        *("torch.jit.frontend", "torch.jit._trace", "torch.cuda._gpu_trace"),
    }
)

_BUILTINS = frozenset(
    {
        *(
            "eval",
            "exec",
            "execfile",
            "compile",
            "__import__",
            "open",
            "file",
            "input",
            "raw_input",
        ),
        *("getattr", "setattr", "delattr", "vars", "globals", "locals", "dir", "apply", "reload"),
        *("breakpoint", "map", "filter", "reduce", "super", "help", "exit", "quit"),
    }
)

NAMES: Mapping[str, frozenset[str]] = {
    "builtins": _BUILTINS,
    "__builtin__": _BUILTINS,
    "operator": frozenset(
        {"attrgetter", "methodcaller", "itemgetter", "call", "setitem", "delitem"}
    ),
    "_operator": frozenset(
        {"attrgetter", "methodcaller", "itemgetter", "call", "setitem", "delitem"}
    ),
    "functools": frozenset({"reduce", "partialmethod"}),
    "_functools": frozenset({"reduce"}),
    "itertools": frozenset({"starmap", "accumulate", "filterfalse", "takewhile", "dropwhile"}),
    "types": frozenset(
        {
            "CodeType",
            "FunctionType",
            "LambdaType",
            "MethodType",
            "ModuleType",
            "new_class",
            "prepare_class",
        }
    ),
    "new": frozenset({"code", "function", "instancemethod", "classobj", "module"}),
    "codecs": frozenset({"decode", "encode", "open", "EncodedFile", "lookup", "register"}),
    "_codecs": frozenset({"decode", "lookup", "register"}),
    "io": frozenset(
        {"open", "open_code", "FileIO", "TextIOWrapper", "BufferedReader", "BufferedWriter"}
    ),
    "_io": frozenset(
        {"open", "open_code", "FileIO", "TextIOWrapper", "BufferedReader", "BufferedWriter"}
    ),
    "_pyio": frozenset({"open", "open_code", "FileIO", "OpenWrapper"}),
    "uuid": frozenset(
        {"_get_command_stdout", "_popen", "_find_mac", "_ifconfig_getter", "getnode"}
    ),
    "platform": frozenset({"popen", "_syscmd_ver", "_syscmd_file", "_syscmd_processor"}),
    "logging": frozenset({"FileHandler", "basicConfig", "config", "handlers"}),
    "signal": frozenset(
        {"signal", "alarm", "raise_signal", "pthread_kill", "setitimer", "set_wakeup_fd"}
    ),
    "inspect": frozenset({"getattr_static", "getmembers", "getsource", "currentframe", "stack"}),
    "urllib": frozenset({"urlopen", "urlretrieve", "URLopener", "FancyURLopener"}),
    "linecache": frozenset({"getline", "getlines", "updatecache"}),
    "gzip": frozenset({"open", "GzipFile"}),
    "bz2": frozenset({"open", "BZ2File"}),
    "lzma": frozenset({"open", "LZMAFile"}),
    "copyreg": frozenset({"add_extension", "pickle", "constructor"}),
    "dill": frozenset({"load", "loads", "load_module", "load_session"}),
    "dill._dill": frozenset(
        {
            "load",
            "loads",
            "_create_function",
            "_create_code",
            "_import_module",
            "_eval_repr",
            "_getattribute",
        }
    ),
    "numpy": frozenset(
        {"load", "fromfile", "memmap", "save", "savez", "savetxt", "genfromtxt", "loadtxt"}
    ),
    "numpy.core.memmap": frozenset({"memmap"}),
    "numpy._core.memmap": frozenset({"memmap"}),
    "pandas": frozenset({"read_pickle", "eval", "read_csv", "read_hdf"}),
    "pandas.io.pickle": frozenset({"read_pickle", "to_pickle"}),
    "pandas.core.computation.eval": frozenset({"eval"}),
    "yaml": frozenset({"load", "unsafe_load", "full_load", "load_all", "unsafe_load_all"}),
    "keras.models": frozenset({"load_model"}),
    "tensorflow": frozenset({"load_op_library", "load_library", "py_function", "numpy_function"}),
    "torch": frozenset(
        {"load", "save", "compile", "from_file", "classes", "ops", "hub", "jit", "package"}
    ),
    "torch.serialization": frozenset({"load", "_load", "_legacy_load", "save"}),
    "torch.jit": frozenset(
        {"load", "save", "script", "trace", "CompilationUnit", "jit_module_from_flatbuffer"}
    ),
    "torch.distributed": frozenset({"init_process_group", "broadcast_object_list"}),
    "transformers.dynamic_module_utils": frozenset(
        {"get_class_from_dynamic_module", "get_class_in_module"}
    ),
}

METHODS = frozenset({"pathlib", "pathlib._local", "io", "_io"})

REEXPORTED = frozenset(
    {
        *(
            "os",
            "sys",
            "subprocess",
            "builtins",
            "importlib",
            "posix",
            "nt",
            "shutil",
            "socket",
            "pickle",
        ),
        *("runpy", "ctypes", "codecs", "pty", "marshal", "tempfile", "__builtins__", "__builtin__"),
    }
)

# Attributes that do harm wherever they are reached by a dotted name.
ATTRIBUTES = frozenset(
    {
        *("system", "popen", "popen2", "Popen", "call", "check_call", "check_output", "getoutput"),
        *(
            "execv",
            "execve",
            "execl",
            "execvp",
            "spawnl",
            "spawnv",
            "spawnvp",
            "posix_spawn",
            "fork",
        ),
        *(
            "eval",
            "exec",
            "execfile",
            "compile",
            "import_module",
            "__import__",
            "getattr",
            "run_code",
        ),
        *("run_path", "run_module", "_run_code", "mkdir", "makedirs", "unlink", "rmdir", "rmtree"),
        *(
            "write_text",
            "write_bytes",
            "read_text",
            "read_bytes",
            "urlopen",
            "urlretrieve",
            "connect",
        ),
        *(
            "runcode",
            "runsource",
            "runctx",
            "runeval",
            "attrgetter",
            "methodcaller",
            "CDLL",
            "dlopen",
        ),
    }
)
