"""What PEFT's methods are called, which parameters and fields are theirs, and how each is merged.

Source: `peft.utils.PeftType`, the layers' `adapter_layer_names` and the dataclass fields of the
configurations of PEFT 0.21.2; fields that older versions wrote are among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_COMMON = (
    "auto_mapping base_model_name_or_path inference_mode peft_type peft_version revision task_type "
    "modules_to_save target_modules exclude_modules layers_to_transform layers_pattern "
    "init_weights runtime_config"
)
COMMON_FIELDS = frozenset(_COMMON.split())
_LORA_FIELDS = (
    "r lora_alpha lora_dropout fan_in_fan_out bias use_rslora init_lora_weights rank_pattern alpha_pattern "
    "megatron_config megatron_core trainable_token_indices loftq_config eva_config corda_config "
    "lora_ga_config use_dora velora_config alora_invocation_tokens use_qalora qalora_group_size "
    "monteclora_config layer_replication lora_bias target_parameters use_bdlora arrow_config kasa_config "
    "ensure_weight_tying enable_lora merge_weights"
)
_LORA_NAMES = "lora_A lora_B lora_embedding_A lora_embedding_B lora_magnitude_vector"
_LYCORIS_FIELDS = (
    "r alpha rank_pattern alpha_pattern rank_dropout module_dropout use_effective_conv2d"
)


@dataclass(frozen=True, slots=True)
class Method:
    """A PEFT method: its parameters, its fields, and why it cannot be merged, if so.

    `shared` are parameters that lie beside the modules, once for all of them. `additive` says that the
    update does not depend on the base, so that it can be weighted.
    """

    parameters: frozenset[str]
    fields: frozenset[str] = COMMON_FIELDS
    shared: frozenset[str] = frozenset()
    refused: str = ""
    additive: bool = False


def _method(parameters: str, fields: str, *, shared: str = "", additive: bool = False) -> Method:
    """With names separated by spaces; the fields that all methods have are added."""
    names = frozenset(parameters.split()), COMMON_FIELDS | frozenset(fields.split())
    return Method(*names, frozenset(shared.split()), "", additive)


def _refused(reason: str, parameters: str = "") -> Method:
    """A method that is not merged, and the reason."""
    return Method(frozenset(parameters.split()), refused=reason)


_PROMPT = "it adds tokens or keys in front of the input and changes no weight"
_ROUTED = "what it adds depends on the input, so no change of the weights equals it"
_HIDDEN = "it adds a computation beside the layers, so no change of the weights equals it"
_SPLIT = "it splits the base weights by a decomposition of its own when it is loaded"

METHODS: Mapping[str, Method] = {
    "LORA": _method(_LORA_NAMES, _LORA_FIELDS, additive=True),
    "ADALORA": _method(
        f"{_LORA_NAMES} lora_E ranknum",
        f"{_LORA_FIELDS} target_r init_r tinit tfinal deltaT beta1 beta2 orth_reg_weight total_step",
        additive=True,
    ),
    "LOHA": _method(
        "hada_w1_a hada_w1_b hada_w2_a hada_w2_b hada_t1 hada_t2", _LYCORIS_FIELDS, additive=True
    ),
    "LOKR": _method(
        "lokr_w1 lokr_w1_a lokr_w1_b lokr_w2 lokr_w2_a lokr_w2_b lokr_t2",
        f"{_LYCORIS_FIELDS} decompose_both decompose_factor rank_dropout_scale",
        additive=True,
    ),
    "IA3": _method("ia3_l", "feedforward_modules fan_in_fan_out init_ia3_weights"),
    "OFT": _method(
        "oft_R oft_r oft_embedding_R",
        "r oft_block_size module_dropout fan_in_fan_out bias coft eps block_share use_cayley_neumann "
        "num_cayley_neumann_terms rank_pattern alpha_pattern",
    ),
    "BOFT": _method(
        "boft_R boft_s",
        "boft_block_size boft_block_num boft_n_butterfly_factor fan_in_fan_out boft_dropout bias",
    ),
    "VERA": _method(
        "vera_lambda_b vera_lambda_d",
        "r projection_prng_key save_projection vera_dropout d_initial fan_in_fan_out bias",
        shared="vera_A vera_B",
        additive=True,
    ),
    "FOURIERFT": _method(
        "fourierft_spectrum",
        "n_frequency scaling random_loc_seed fan_in_fan_out bias n_frequency_pattern",
        additive=True,
    ),
    "LN_TUNING": _method("ln_tuning_layers", ""),
    "TRAINABLE_TOKENS": _method("trainable_tokens_delta", "token_indices"),
    "HRA": _method("hra_u", "r apply_GS bias"),
    "MISS": _method("miss_block", "r mini_r miss_dropout bias"),
    "C3A": _method("c3a_kernel", "block_size block_size_pattern bias", additive=True),
    "SHIRA": _method("shira_weight shira_indices", "r mask_type random_seed fan_in_fan_out"),
    "ROAD": _method("road_theta road_alpha", "variant group_size"),
    "WAVEFT": _method(
        "waveft_spectrum",
        "n_frequency scaling random_loc_seed fan_in_fan_out bias n_frequency_pattern wavelet_family "
        "use_idwt proportional_parameters",
        additive=True,
    ),
    "DELORA": _method(
        "delora_A delora_B delora_lambda delora_w_norm",
        "r delora_lambda module_dropout bias lambda_pattern rank_pattern",
    ),
    "GRALORA": _method(
        "gralora_A gralora_B gralora_A_general gralora_B_general",
        "r alpha hybrid_r gralora_dropout gralora_k fan_in_fan_out bias",
        additive=True,
    ),
    "HIRA": _method(
        "hira_A hira_B hira_embedding_A hira_embedding_B",
        "r hira_dropout fan_in_fan_out rank_pattern",
    ),
    "DEFT": _method(
        "deft_P deft_R",
        "r alpha decomposition_method deft_dropout fan_in_fan_out init_scale para bias",
    ),
    "GLORA": _refused("its update is read by PEFT for whole models only", "glora_A glora_B"),
    "RANDLORA": _refused(
        "its bases are drawn anew for the whole model", "randlora_lambda randlora_gamma"
    ),
    "VBLORA": _refused(
        "its vectors are shared by the whole model", "vblora_logits_A vblora_logits_B"
    ),
    "BEFT": _refused("its bias has no place in layers that have none", "beft_bias"),
    "ADAMSS": _refused(_SPLIT, "adamss_A adamss_B"),
    "FROD": _refused("it factors all the layers of a model together", "frod_lambda_l"),
    "OSF": _refused(_SPLIT, "osf_svd_params"),
    "PSOFT": _refused(_SPLIT, "psoft_R"),
    "TINYLORA": _refused(_SPLIT, "tinylora_v"),
    "PVERA": _refused("what it adds is drawn at random", "pvera_lambda_b pvera_lambda_d"),
    "PEANUT": _refused("its update is a network over the base weights", "peanut_A peanut_B"),
    "SUPERTUNING": _refused("hfconvert does not know it", "supertuning_values"),
    "UNILORA": _refused("its vector is shared by the whole model", "unilora_theta_d"),
    "POLY": _refused(_ROUTED, "poly_lora_A poly_lora_B poly_router"),
    "XLORA": _refused(_ROUTED),
    "LILY": _refused(_ROUTED, "lily_A lily_B lily_router"),
    "SHADOW": _refused(_HIDDEN, "shadow_down shadow_up"),
    "ADAPTION_PROMPT": _refused(_PROMPT),
    "CARTRIDGE": _refused(_PROMPT),
    "CPT": _refused(_PROMPT),
    "PROMPT_TUNING": _refused(_PROMPT),
    "MULTITASK_PROMPT_TUNING": _refused(_PROMPT),
    "P_TUNING": _refused(_PROMPT),
    "PREFIX_TUNING": _refused(_PROMPT),
}

PARAMETERS: Mapping[str, str] = {
    name: method
    for method, one in reversed(list(METHODS.items()))
    for name in one.parameters | one.shared
}
"""The method that a parameter is of; those of several are of the first."""
