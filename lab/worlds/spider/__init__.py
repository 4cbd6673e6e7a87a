"""Questions of Spider, for a language model after a short fine-tuning."""
