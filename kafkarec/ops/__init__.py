"""Operations on whole logs, one package or module each. They import `storage`; `storage` never imports them."""
