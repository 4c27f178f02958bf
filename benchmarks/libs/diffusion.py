"""Diffusion: schedulers and models of diffusers, and samplers of others."""

from __future__ import annotations

from typing import Any

import torch

from . import Use, evaluated, item, size, stepped


def _sampled(scheduler: Any, steps: int = 4) -> Use:
    """A loop of denoising, as the documentation of diffusers writes it."""
    model = torch.nn.Conv2d(1, 1, 3, padding=1)

    def sample(noise: torch.Tensor) -> torch.Tensor:
        scheduler.set_timesteps(steps)
        image = noise * scheduler.init_noise_sigma
        for t in scheduler.timesteps:
            scaled = scheduler.scale_model_input(image, t)
            image = scheduler.step(model(scaled), t, image).prev_sample
        return image

    return Use("eval", sample, lambda n: (torch.randn(size(1, n), 1, 8, 8),), (model,))


@item("diffusers")
def ddpm_sampling() -> Use:
    from diffusers import DDPMScheduler

    return _sampled(DDPMScheduler(num_train_timesteps=20))


@item("diffusers")
def ddim_sampling() -> Use:
    from diffusers import DDIMScheduler

    return _sampled(DDIMScheduler(num_train_timesteps=20))


@item("diffusers")
def euler_sampling() -> Use:
    from diffusers import EulerDiscreteScheduler

    return _sampled(EulerDiscreteScheduler(num_train_timesteps=20))


@item("diffusers")
def dpm_solver_sampling() -> Use:
    from diffusers import DPMSolverMultistepScheduler

    return _sampled(DPMSolverMultistepScheduler(num_train_timesteps=20))


@item("diffusers")
def flow_match_sampling() -> Use:
    from diffusers import FlowMatchEulerDiscreteScheduler

    scheduler, model = FlowMatchEulerDiscreteScheduler(), torch.nn.Linear(6, 6)

    def sample(latents: torch.Tensor) -> torch.Tensor:
        scheduler.set_timesteps(4)
        for t in scheduler.timesteps:
            latents = scheduler.step(model(latents), t, latents, return_dict=False)[0]
        return latents

    return Use("eval", sample, lambda n: (torch.randn(size(2, n), 6),), (model,))


@item("diffusers")
def one_step_of_unipc() -> Use:
    from diffusers import UniPCMultistepScheduler

    scheduler = UniPCMultistepScheduler(num_train_timesteps=20)
    scheduler.set_timesteps(8)
    steps = list(scheduler.timesteps)

    def step(noise: torch.Tensor, t: torch.Tensor, sample: torch.Tensor) -> torch.Tensor:
        return scheduler.step(noise, t, sample).prev_sample

    return Use(
        "eval", step, lambda n: (torch.randn(1, 6), steps[n], torch.randn(1, 6)), (scheduler,)
    )


@item("diffusers")
def unet_2d() -> Use:
    from diffusers import UNet2DModel

    model = UNet2DModel(
        sample_size=8,
        in_channels=1,
        out_channels=1,
        layers_per_block=1,
        block_out_channels=(16, 32),
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        norm_num_groups=8,
    )
    return evaluated(model, lambda n: (torch.randn(1, 1, 8, 8), torch.tensor(n)))


@item("diffusers")
def training_step_of_ddpm() -> Use:
    from diffusers import DDPMScheduler, UNet2DModel

    model = UNet2DModel(
        sample_size=8,
        in_channels=1,
        out_channels=1,
        layers_per_block=1,
        block_out_channels=(16, 16),
        down_block_types=("DownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "UpBlock2D"),
        norm_num_groups=8,
    )
    scheduler = DDPMScheduler(num_train_timesteps=20)

    def loss(net: torch.nn.Module, clean: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
        noise = torch.randn(clean.shape)
        noisy = scheduler.add_noise(clean, noise, steps)
        return torch.nn.functional.mse_loss(net(noisy, steps, return_dict=False)[0], noise)

    return stepped(
        model,
        torch.optim.AdamW(model.parameters(), lr=1e-4),
        loss,
        lambda n: (torch.randn(2, 1, 8, 8), torch.randint(20, (2,))),
        clip=1.0,
    )


@item("diffusers")
def autoencoder_kl() -> Use:
    from diffusers import AutoencoderKL

    model = AutoencoderKL(
        block_out_channels=(16,), latent_channels=2, norm_num_groups=8, sample_size=8
    )

    def encode_and_decode(image: torch.Tensor) -> torch.Tensor:
        latents = model.encode(image).latent_dist.sample()
        return model.decode(latents).sample

    return Use("eval", encode_and_decode, lambda n: (torch.randn(1, 3, 8, 8),), (model,))


@item("diffusers")
def prior_transformer() -> Use:
    from diffusers import PriorTransformer

    model = PriorTransformer(
        num_attention_heads=2,
        attention_head_dim=8,
        num_layers=1,
        embedding_dim=16,
        num_embeddings=5,
        additional_embeddings=4,
    )
    return evaluated(
        model, lambda n: (torch.randn(1, 16), n, torch.randn(1, 16), torch.randn(1, 5, 16))
    )


@item("diffusers")
def transformer_of_images() -> Use:
    from diffusers import DiTTransformer2DModel

    model = DiTTransformer2DModel(
        num_attention_heads=2,
        attention_head_dim=8,
        in_channels=2,
        out_channels=2,
        num_layers=1,
        sample_size=8,
        norm_num_groups=2,
        num_embeds_ada_norm=10,
    )
    return evaluated(
        model,
        lambda n: (torch.randn(1, 2, 8, 8), torch.tensor([n]), torch.tensor([n % 3])),
    )


@item("diffusers")
def averaged_weights() -> Use:
    from diffusers.training_utils import EMAModel

    model = torch.nn.Linear(4, 4)
    average = EMAModel(model.parameters(), decay=0.9)

    def step(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            model.weight.add_(x)
        average.step(model.parameters())
        return model.weight.sum()

    return Use("state", step, lambda n: (torch.randn(4, 4),), (model, average))


@item("denoising-diffusion-pytorch")
def gaussian_diffusion_loss() -> Use:
    from denoising_diffusion_pytorch import GaussianDiffusion, Unet

    model = Unet(dim=8, dim_mults=(1, 2), flash_attn=False, attn_heads=1, attn_dim_head=8)
    diffusion = GaussianDiffusion(model, image_size=8, timesteps=20)
    return stepped(
        diffusion,
        torch.optim.Adam(diffusion.parameters(), 1e-4),
        lambda net, images: net(images),
        lambda n: (torch.rand(2, 3, 8, 8),),
    )


@item("denoising-diffusion-pytorch")
def gaussian_diffusion_sampling() -> Use:
    from denoising_diffusion_pytorch import GaussianDiffusion, Unet

    model = Unet(dim=8, dim_mults=(1, 2), flash_attn=False, attn_heads=1, attn_dim_head=8)
    diffusion = GaussianDiffusion(model, image_size=8, timesteps=20, sampling_timesteps=3)

    def sample(count: int) -> torch.Tensor:
        return diffusion.sample(batch_size=count)

    return Use("eval", sample, lambda n: (size(1, n),), (diffusion,))


@item("ema-pytorch")
def update_of_an_average() -> Use:
    from ema_pytorch import EMA

    model = torch.nn.Linear(4, 4)
    average = EMA(model, beta=0.9, update_after_step=1, update_every=2)

    def update(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            model.weight.add_(x)
        average.update()
        return average(x)

    return Use("state", update, lambda n: (torch.randn(4, 4),), (model, average))
