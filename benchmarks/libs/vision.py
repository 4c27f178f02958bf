"""Vision: timm, torchvision, kornia, vit_pytorch, fvcore, rotations of roma and pypose."""

from __future__ import annotations

import torch

from . import Inputs, Use, evaluated, item, size, stepped, trained


def _images(side: int = 32) -> Inputs:
    return lambda n: (torch.randn(2 if n < 2 else 3, 3, side, side),)


def _labelled(side: int = 32) -> Inputs:
    return lambda n: (torch.randn(2, 3, side, side), torch.randint(3, (2,)))


def _boxes(count: int) -> torch.Tensor:
    corners = torch.rand(count, 2)
    return torch.cat([corners, corners + torch.rand(count, 2)], 1)


@item("timm")
def vision_transformer() -> Use:
    import timm

    model = timm.create_model(
        "vit_tiny_patch16_224", img_size=32, num_classes=3, depth=2, embed_dim=32, num_heads=2
    )
    return evaluated(model, _images())


@item("timm")
def resnet_training_step() -> Use:
    import timm

    model = timm.create_model("test_resnet", num_classes=3)
    return stepped(
        model,
        torch.optim.SGD(model.parameters(), 0.1, momentum=0.9),
        lambda net, x, labels: torch.nn.functional.cross_entropy(net(x), labels),
        _labelled(),
    )


@item("timm")
def efficientnet() -> Use:
    import timm

    return evaluated(timm.create_model("test_efficientnet", num_classes=3), _images())


@item("timm")
def hierarchical_features() -> Use:
    import timm

    return evaluated(timm.create_model("test_convnext", features_only=True), _images(64))


@item("timm")
def swin() -> Use:
    import timm

    model = timm.create_model(
        "swin_tiny_patch4_window7_224", img_size=56, embed_dim=12, depths=(2, 2), num_heads=(2, 2),
        num_classes=3,
    )  # fmt: skip
    return evaluated(model, _images(56))


@item("timm")
def dropped_paths() -> Use:
    import timm

    model = timm.create_model(
        "vit_tiny_patch16_224", img_size=32, num_classes=3, depth=2, embed_dim=32, num_heads=2,
        drop_path_rate=0.5,
    )  # fmt: skip
    return trained(model, _images())


@item("timm")
def mixup_step() -> Use:
    import timm
    from timm.data import Mixup
    from timm.loss import SoftTargetCrossEntropy

    model = timm.create_model("test_vit", num_classes=3, img_size=32)
    mix, loss = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, num_classes=3), SoftTargetCrossEntropy()

    def of_batch(net: torch.nn.Module, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        mixed, targets = mix(x, labels)
        return loss(net(mixed), targets)

    return stepped(model, torch.optim.AdamW(model.parameters(), 1e-3), of_batch, _labelled())


@item("timm")
def step_of_lamb_with_averaged_weights() -> Use:
    import timm
    from timm.optim import create_optimizer_v2
    from timm.utils import ModelEmaV3

    model = timm.create_model("test_vit", num_classes=3, img_size=32)
    average = ModelEmaV3(model, decay=0.9)
    optimizer = create_optimizer_v2(model, opt="lamb", lr=1e-3, weight_decay=0.05)

    def step(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        average.update(model)
        return loss.detach()

    return Use("step", step, _labelled(), (model, optimizer, average))


@item("torchvision")
def shufflenet() -> Use:
    from torchvision.models import shufflenet_v2_x0_5

    return trained(shufflenet_v2_x0_5(num_classes=3), _images())


@item("torchvision")
def box_losses() -> Use:
    from torchvision.ops import generalized_box_iou_loss

    return Use(
        "train",
        generalized_box_iou_loss,
        lambda n: (_boxes(size(4, n)).requires_grad_(), _boxes(size(4, n)), "mean"),
    )


@item("torchvision")
def focal_loss() -> Use:
    from torchvision.ops import sigmoid_focal_loss

    def loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return sigmoid_focal_loss(logits, labels, reduction="mean")

    return Use(
        "train",
        loss,
        lambda n: (torch.randn(size(4, n), 3, requires_grad=True), torch.rand(size(4, n), 3)),
    )


@item("torchvision")
def pyramid() -> Use:
    from torchvision.ops import FeaturePyramidNetwork

    model = FeaturePyramidNetwork([4, 8], 6)
    return evaluated(
        model, lambda n: ({"a": torch.randn(1, 4, 16, 16), "b": torch.randn(1, 8, 8, 8)},)
    )


@item("torchvision")
def random_augmentations() -> Use:
    from torchvision.transforms import v2

    augment = v2.Compose([v2.RandomHorizontalFlip(0.5), v2.Normalize([0.5] * 3, [0.5] * 3)])
    return Use("eval", augment, _images(), (augment,))


@item("torchvision")
def anchors() -> Use:
    from torchvision.models.detection.anchor_utils import AnchorGenerator
    from torchvision.models.detection.image_list import ImageList

    generator = AnchorGenerator(((8,), (16,)), ((0.5, 1.0), (0.5, 1.0)))

    def of_images(images: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> object:
        return generator(ImageList(images, [(32, 32)] * images.shape[0]), [one, other])

    return Use(
        "eval",
        of_images,
        lambda n: (*_images()(n), torch.randn(1, 4, 8, 8), torch.randn(1, 4, 4, 4)),
    )


@item("kornia")
def random_augmentation() -> Use:
    import kornia.augmentation as K

    augment = K.AugmentationSequential(K.RandomHorizontalFlip(p=0.5), K.RandomErasing(p=0.5))
    return Use("step", augment, lambda n: (torch.rand(2, 3, 16, 16),), (augment,))


@item("kornia")
def canny_edges() -> Use:
    from kornia.filters import Canny

    return evaluated(Canny(), lambda n: (torch.rand(1, 1, size(12, n), 12),))


@item("kornia")
def warped_images() -> Use:
    from kornia.geometry.transform import rotate

    return Use("eval", rotate, lambda n: (torch.rand(2, 1, 10, 10), torch.rand(2) * 90))


@item("kornia")
def homography() -> Use:
    from kornia.geometry import find_homography_dlt

    return Use("eval", find_homography_dlt, lambda n: (torch.rand(1, 6, 2), torch.rand(1, 6, 2)))


@item("vit-pytorch")
def simple_vit_step() -> Use:
    from vit_pytorch import SimpleViT

    model = SimpleViT(
        image_size=32, patch_size=16, num_classes=3, dim=16, depth=1, heads=2, mlp_dim=16
    )
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    return stepped(
        model,
        optimizer,
        lambda net, x, labels: torch.nn.functional.cross_entropy(net(x), labels),
        _labelled(),
        scheduler=torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10),
    )


@item("vit-pytorch")
def class_attention() -> Use:
    from vit_pytorch.cait import CaiT

    model = CaiT(
        image_size=32, patch_size=8, num_classes=3, dim=16, depth=2, cls_depth=1, heads=2,
        mlp_dim=16, layer_dropout=0.5,
    )  # fmt: skip
    return trained(model, _images())


@item("vit-pytorch")
def patches_of_any_size() -> Use:
    from vit_pytorch.na_vit import NaViT

    model = NaViT(image_size=32, patch_size=8, num_classes=3, dim=16, depth=1, heads=2, mlp_dim=16)
    return evaluated(model, lambda n: ([torch.randn(3, 16, 32), torch.randn(3, 8, 16)],))


@item("fvcore")
def smooth_loss_and_box_loss() -> Use:
    from fvcore.nn import giou_loss, smooth_l1_loss

    def loss(boxes: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        smooth = smooth_l1_loss(boxes, targets, beta=0.1, reduction="mean")
        return smooth + giou_loss(boxes, targets, reduction="mean")

    return Use("train", loss, lambda n: (_boxes(size(3, n)).requires_grad_(), _boxes(size(3, n))))


@item("roma")
def rotation_of_vectors() -> Use:
    import roma

    def rotation(vectors: torch.Tensor) -> object:
        matrix = roma.rotvec_to_rotmat(vectors)
        return matrix, roma.rotmat_to_unitquat(matrix)

    return Use("train", rotation, lambda n: (torch.randn(size(3, n), 3, requires_grad=True),))


@item("roma")
def nearest_rotation() -> Use:
    import roma

    def align(points: torch.Tensor, others: torch.Tensor) -> object:
        return roma.rigid_points_registration(points, others)

    return Use("eval", align, lambda n: (torch.randn(size(5, n), 3), torch.randn(size(5, n), 3)))


@item("pypose")
def poses() -> Use:
    import pypose

    def moved(tangent: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
        pose = pypose.se3(tangent).Exp()
        return (pose @ points).sum(-1)

    return Use(
        "train",
        moved,
        lambda n: (torch.randn(size(3, n), 6, requires_grad=True), torch.randn(size(3, n), 3)),
    )


@item("efficientnet_pytorch")
def efficientnet_b0() -> Use:
    from efficientnet_pytorch import EfficientNet

    options = {"num_classes": 3, "width_coefficient": 0.25, "depth_coefficient": 0.25}
    return trained(EfficientNet.from_name("efficientnet-b0", **options), lambda n: _images()(0))
