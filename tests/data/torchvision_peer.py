"""What torchvision makes of images for evaluation: FILE.f32 beside each FILE. Exit code 77 where there is none."""
import sys

try:
    import PIL.Image
    import torchvision.transforms as transforms
except ImportError as missing:
    print(missing)
    sys.exit(77)

prepare = transforms.Compose([
    transforms.Resize(256),
    transforms.CenterCrop(224),
    transforms.ToTensor(),
    transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
])
for path in sys.argv[1:]:
    prepare(PIL.Image.open(path).convert("RGB")).numpy().tofile(path + ".f32")
