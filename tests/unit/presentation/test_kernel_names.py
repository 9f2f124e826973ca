"""Names of kernels for people."""

from __future__ import annotations

import pytest

from unified_profiler.presentation.kernel_names import short_kernel_names


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void cudnn::bn_fw<float, 512, true>(int, float const*)", "bn_fw"),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<MulFunctor<float> >>(int)",
            "vectorized_elementwise_kernel [BinaryFunctor, MulFunctor]",
        ),
        ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float>(float*)", "CatArrayBatchedCopy"),
        ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm>(cutlass::Params)", "cutlass_80_tensorop_s1688gemm"),
        ("Memcpy DtoD (Device -> Device)", "Memcpy DtoD"),
        ("Cijk_Ailk_Bjlk_SB", "Cijk_Ailk_Bjlk_SB"),
        ("(odd)", "(odd)"),
        ("void sort<cub::Policy<tuple<int> > >(int)", "sort"),
        ("void first<int>(int) → void second<int>(int)", "first → second"),
    ],
)
def test_names_of_kernels_are_shortened_to_what_distinguishes_them(name: str, short: str) -> None:
    assert short_kernel_names(name) == short
