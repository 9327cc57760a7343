"""Names are judged one by one: what is benign never trips, what does harm never passes."""

from __future__ import annotations

import pytest

from hfconvert.pickles.rebuilds import REBUILDS
from hfconvert.pickles.verdicts import judge

DANGEROUS = """
os system | posix system | nt system | subprocess Popen | subprocess check_output | sys exit
builtins eval | builtins exec | builtins compile | builtins __import__ | builtins open
__builtin__ eval | __builtin__ apply | __builtin__ execfile | builtins globals | builtins breakpoint
runpy _run_code | runpy run_path | importlib import_module | imp load_source | pty spawn
socket create_connection | shutil rmtree | webbrowser open | ctypes CDLL | ctypes.util find_library
operator attrgetter | _operator methodcaller | operator call | itertools starmap | functools reduce
types CodeType | types FunctionType | marshal loads | pickle loads | _pickle load | cPickle loads
pickle Unpickler | shelve open | joblib load | dill loads | cloudpickle.cloudpickle _make_function
codecs decode | codecs open | _codecs decode | io open | _io FileIO | _pyio open
logging FileHandler | logging.config fileConfig | urllib.request urlopen | urllib urlopen
urllib2 urlopen | httplib HTTPSConnection | http.client HTTPSConnection | requests.api get
aiohttp.client ClientSession | ftplib FTP | smtplib SMTP | xmlrpc.client ServerProxy
bdb Bdb.run | pdb run | cProfile runctx | profile Profile.run | trace Trace.runctx | timeit timeit
doctest debug_script | idlelib.run Executive.runcode | lib2to3.pgen2.grammar Grammar.loads
ensurepip._run_pip x | ensurepip _run_pip | pip main | venv create | distutils.file_util write_file
uuid _get_command_stdout | pydoc pipepager | _pyrepl.pager pipe_pager | code InteractiveInterpreter.runcode
asyncio.unix_events _UnixSubprocessTransport._start | multiprocessing.util spawnv_passfds
numpy.testing._private.utils runstring | numpy.f2py.crackfortran getlincoef | numpy load
pandas read_pickle | yaml unsafe_load | torch load | torch.serialization load | torch.hub load
torch.hub _get_torch_home | torch.jit load | torch.package PackageImporter | torch.ops load_library
torch._inductor.codecache compile_file | torch._dynamo.guards GuardBuilder.get
torch.utils.cpp_extension load | torch.utils.collect_env run | torch.utils.model_zoo load_url
torch.utils.bottleneck.__main__ run_autograd_prof | torch.fx.graph_module reduce_graph_module
torch.fx.experimental.symbolic_shapes ShapeEnv.evaluate_guards_expression
torch.utils.data.datapipes.utils.decoder basichandlers | torch.distributed.rpc rpc_sync
torch.jit.unsupported_tensor_ops execWrapper | pathlib Path.write_text | pathlib Path.unlink
torch.serialization os.system | torch.serialization os | anything sys.modules | models helpers.system
torch hub.load | linecache os.system | numpy __dict__.x | torch nn.__globals__ | x Model.__reduce__
"""
BENIGN = """
collections OrderedDict | torch._utils _rebuild_tensor_v2 | torch FloatStorage | torch.cuda HalfStorage
torch.storage UntypedStorage | torch float32 | torch bfloat16 | torch Size | torch device
_codecs encode | numpy dtype | numpy ndarray | numpy.core.multiarray scalar
numpy._core.multiarray _reconstruct | argparse Namespace | pathlib PosixPath | __builtin__ set
torch._tensor _rebuild_from_type_v2 | torch per_tensor_affine | datetime datetime | functools partial
"""
UNKNOWN = """
models Net | __main__ Model | torch.nn.modules.linear Linear | torch.optim.adam Adam
transformers.training_args TrainingArguments | transformers.trainer_utils SchedulerType.LINEAR
signal Signals | typing Any | builtins type | omegaconf.dictconfig DictConfig | logging getLogger
torch._C ScriptObject | deepspeed.utils.tensor_fragment fragment_address | torch.storage _load_from_bytes
torch.distributed.tensor DTensor | enum Enum | http HTTPStatus | urllib.parse ParseResult
torch.nn.functional relu | models Net.<locals>.Inner | torch.utils._pytree TreeSpec | numpy.random MT19937
torch.distributed._shard.sharded_tensor.api ShardedTensor.ProcessGroupState | __torch__.models Net
"""


def names(table: str) -> list[tuple[str, str]]:
    entries = table.replace("\n", "|").split("|")
    return [
        (module, name) for module, name in (entry.split() for entry in entries if entry.strip())
    ]


@pytest.mark.parametrize(("module", "name"), names(DANGEROUS))
def test_dangerous(module: str, name: str) -> None:
    assert judge(module, name) == "dangerous"


@pytest.mark.parametrize(("module", "name"), names(BENIGN))
def test_inert(module: str, name: str) -> None:
    assert judge(module, name) == "inert"


@pytest.mark.parametrize(("module", "name"), names(UNKNOWN))
def test_unknown(module: str, name: str) -> None:
    assert judge(module, name) == "unknown"


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("torch.serialization os", "system"),
        ("torch", "float32 "),
        (" os", "system"),
        ("os\t", "system"),
        ("", "eval"),
        ("torch..load", "x"),
        ("torch", "load\x00"),
        ('echo "x"', "os"),
        ("a-b", "c"),
    ],
)
def test_names_that_hide_what_they_are(module: str, name: str) -> None:
    assert judge(module, name) == "dangerous"


def test_what_is_rebuilt_is_inert() -> None:
    assert {judge(name.module, name.name) for name in REBUILDS} == {"inert"}
