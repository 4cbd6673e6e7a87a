"""Questions of Spider on single tables, for a language model after a short fine-tuning."""
