"""Writes a model's answers for other runtimes: ONNX, torch.export."""
