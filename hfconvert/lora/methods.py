"""What PEFT's methods are called, which parameters and fields are theirs, and how each is merged.

Source: `peft.utils.PeftType`, the layers' `adapter_layer_names` and the dataclass fields of the
configurations of PEFT 0.21.2; fields that older versions wrote are among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

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
_LORA_NAMES = (
    "lora_A lora_B lora_embedding_A lora_embedding_B lora_magnitude_vector lora_diag lora_velora_embed "
    "lora_monteclora_sampler"
)
_LYCORIS_FIELDS = (
    "r alpha rank_pattern alpha_pattern rank_dropout module_dropout use_effective_conv2d"
)


@dataclass(frozen=True, slots=True)
class Method:
    """A PEFT method: its parameters, its fields, and why it cannot be merged, if so.

    `shared` are parameters that lie beside the modules, once for all of them. `additive` says that the
    update does not depend on the base, so that it can be weighted. `whole` is why PEFT can merge it into
    whole models only, empty where a module can be merged by itself.
    """

    parameters: frozenset[str]
    fields: frozenset[str] = COMMON_FIELDS
    shared: frozenset[str] = frozenset()
    refused: str = ""
    additive: bool = False
    whole: str = ""


def _method(parameters: str, fields: str, *, shared: str = "", additive: bool = False) -> Method:
    """With names separated by spaces; the fields that all methods have are added."""
    names = frozenset(parameters.split()), COMMON_FIELDS | frozenset(fields.split())
    return Method(*names, frozenset(shared.split()), "", additive)


def _of_models(whole: str, parameters: str, fields: str, shared: str) -> Method:
    """A method that PEFT merges into whole models only, and the reason."""
    return replace(_method(parameters, fields, shared=shared), whole=whole)


def _refused(reason: str, parameters: str = "") -> Method:
    """A method that is not merged, and the reason."""
    return Method(frozenset(parameters.split()), refused=reason)


_PROMPT = "it adds tokens or keys in front of the input and changes no weight"
_ROUTED = "what it adds depends on the input, so no change of the weights equals it"
_HIDDEN = "it adds a computation beside the layers, so no change of the weights equals it"

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
    "PEANUT": _method(
        "peanut_A peanut_B peanut_encoders peanut_decoders", "r depth act_fn scaling"
    ),
    "PSOFT": _method(
        "psoft_R",
        "r psoft_alpha psoft_dropout fan_in_fan_out ab_svd_init psoft_svd psoft_svd_lowrank_niter "
        "random_seed psoft_orth psoft_mag_b psoft_mag_a use_cayley_neumann num_cayley_neumann_terms "
        "cayley_neumann_eps",
    ),
    "OSF": _method("osf_svd_params", "effective_rank rank_pattern target_svd_config"),
    "SUPERTUNING": _method(
        "supertuning_values supertuning_indices supertuning_lora_A supertuning_lora_B",
        "sparsity select_top r lora_alpha lora_dropout save_precomputed_indices",
    ),
    "PVERA": _method(
        "pvera_lambda_b pvera_lambda_d",
        "r projection_prng_key save_projection pvera_dropout d_initial fan_in_fan_out bias "
        "sample_at_inference generator_seed",
        shared="pvera_A pvera_B",
    ),
    "RANDLORA": _method(
        "randlora_lambda randlora_gamma randlora_A randlora_B",
        "r projection_prng_key save_projection sparse very_sparse randlora_dropout fan_in_fan_out "
        "randlora_alpha bias",
        shared="randlora_A randlora_B",
    ),
    "VBLORA": _method(
        "vblora_logits_A vblora_logits_B vblora_logits_A_topk_indices vblora_logits_A_topk_weights "
        "vblora_logits_B_topk_indices vblora_logits_B_topk_weights",
        "r num_vectors vector_length topk save_only_topk_weights vblora_dropout fan_in_fan_out bias "
        "init_vector_bank_bound init_logits_std",
        shared="vblora_vector_bank",
    ),
    "BEFT": _method("beft_bias", ""),
    "ADAMSS": _refused(
        "its subspaces are clusters of the base's weights, found anew by scikit-learn and not stored",
        "adamss_A adamss_B",
    ),
    "GLORA": _method(
        "glora_A glora_B glora_C glora_D glora_E", "r bias config_A_B config_C config_D_E"
    ),
    "FROD": _of_models(
        "it factors all the layers of a kind together",
        "frod_lambda_l frod_lambda_s_values",
        "projection_prng_key save_projection frod_dropout fan_in_fan_out bias sparse_rate "
        "regularization_alpha progressbar runtime_offload_base_weight",
        "frod_V frod_s_indices frod_s_size",
    ),
    "TINYLORA": _of_models(
        "which vector a module takes depends on its place among all of them",
        "tinylora_A tinylora_B tinylora_P",
        "r u weight_tying projection_seed save_projection init_v_bound tinylora_dropout fan_in_fan_out "
        "bias",
        "tinylora_v",
    ),
    "UNILORA": _of_models(
        "one vector is dealt out to all the modules in their order",
        "unilora_indices_A unilora_indices_B unilora_scales_A unilora_scales_B",
        "r proj_seed theta_d_length unilora_dropout fan_in_fan_out bias init_theta_d_bound save_indices",
        "unilora_theta_d",
    ),
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

NOT_STORED: Mapping[str, tuple[str, bool, str]] = {
    "VERA": ("save_projection", True, "its projections are drawn from projection_prng_key"),
    "PVERA": ("save_projection", True, "its projections are drawn from projection_prng_key"),
    "RANDLORA": ("save_projection", True, "its bases are drawn from projection_prng_key"),
    "TINYLORA": ("save_projection", True, "its projections are drawn from projection_seed"),
    "FROD": ("save_projection", True, "its projections are those of a decomposition of the base"),
    "UNILORA": ("save_indices", False, "its indices are drawn from proj_seed"),
    "FOURIERFT": ("", False, "the places of its spectrum are drawn from random_loc_seed"),
    "WAVEFT": ("", False, "the places of its spectrum are drawn from random_loc_seed"),
    "PSOFT": (
        "",
        False,
        "it turns the singular vectors of the base, whose signs are a machine's own",
    ),
}
"""What PEFT makes anew when it loads an adapter: whether it is stored, by field and default; what it is."""

PARAMETERS: Mapping[str, str] = {
    name: method
    for method, one in reversed(list(METHODS.items()))
    for name in one.parameters | one.shared
}
"""The method that a parameter is of; those of several are of the first."""
