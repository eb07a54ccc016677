"""Principals of certificates by Kafka's rules, and super users."""

import pytest

from refimpl.security.principals import NoMatchingRule, SslPrincipalMapper, super_users

NAME = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "user"),
    [
        ("DEFAULT", NAME),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "Duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", "duke"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/U", "DUKE@SERVICEUSERS"),
        ("RULE:^CN=nobody.*$/x/, DEFAULT", NAME),
        ("RULE:^CN=(.*?),.*$/$1@$4/", "Duke@$4"),
        (r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT", "duke"),
    ],
)
def test_the_first_rule_that_fits_says_who_it_is(rules: str, user: str) -> None:
    assert SslPrincipalMapper.of(rules).user(NAME) == user


def test_a_name_that_no_rule_fits_is_refused() -> None:
    with pytest.raises(NoMatchingRule, match="No rules apply to CN=Duke"):
        SslPrincipalMapper.of("RULE:^CN=nobody$/x/").user(NAME)


@pytest.mark.parametrize("wrong", ["NONSENSE", "RULE:^CN=(.*)/", "RULE:(/x/", "DEFAULT,x"])
def test_a_rule_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="Invalid rule"):
        SslPrincipalMapper.of(wrong)


def test_super_users_are_principals_between_semicolons() -> None:
    assert super_users("User:a; User:CN=b,O=c;") == {"User:a", "User:CN=b,O=c"}
    with pytest.raises(ValueError, match="no principal"):
        super_users("admin")
