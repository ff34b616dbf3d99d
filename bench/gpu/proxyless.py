"""ProxylessNAS found for GPUs, which neither torchvision nor timm has: the blocks of bench/zoo/mobile.py in torch."""
from torch import nn

# kernel, channels, expansion, stride; blocks that the search dropped are not here
BLOCKS = [(3, 24, 1, 1), (5, 32, 3, 2), (7, 56, 3, 2), (3, 56, 3, 1), (7, 112, 6, 2), (5, 112, 3, 1), (5, 128, 6, 1), (3, 128, 3, 1),
          (5, 128, 3, 1), (7, 256, 6, 2), (7, 256, 6, 1), (7, 256, 6, 1), (5, 256, 6, 1), (7, 432, 6, 1)]


def convolution(inner, outer, kernel, stride=1, groups=1, active=True):
    layers = [nn.Conv2d(inner, outer, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(outer, eps=1e-3)]
    return nn.Sequential(*layers, *([nn.ReLU6()] if active else []))


class Inverted(nn.Module):
    def __init__(self, inner, outer, kernel, expansion, stride):
        super().__init__()
        wide = inner * expansion
        self.layers = nn.Sequential(*([convolution(inner, wide, 1)] if expansion > 1 else []), convolution(wide, wide, kernel, stride, wide),
                                    convolution(wide, outer, 1, active=False))
        self.adds = stride == 1 and inner == outer

    def forward(self, x):
        return x + self.layers(x) if self.adds else self.layers(x)


def proxylessnas_gpu():
    layers, channels = [convolution(3, 40, 3, 2)], 40
    for kernel, outer, expansion, stride in BLOCKS:
        layers.append(Inverted(channels, outer, kernel, expansion, stride))
        channels = outer
    return nn.Sequential(*layers, convolution(channels, 1728, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1728, 1000))
