import Testing

@testable import HTTPCore

@Suite struct SecretsTests {
    @Test(arguments: [
        ("a=1&token=s&b=2", "a=1&token=***&b=2"), ("token=\u{301}s", "token=***"),
        ("a=1&\u{301}&token=s", "a=1&\u{301}&token=***"),
        ("a&\u{301}=s&token=s", "a&\u{301}=s&token=***"), ("user[\u{301}][token]=s", "user[\u{301}][token]=***"),
        ("token", "token"), ("&", "&"), ("", ""),
    ])
    func secretParametersOfFormsAreHidden(_ form: String, _ shown: String) {
        #expect(Secrets.standard.shown(form: form).utf8.elementsEqual(shown.utf8))
    }

    @Test func namesOfSecretFieldsAreSecretMembers() {
        var secrets = Secrets.standard
        let message: JSONValue = ["payload": ["Authorization": "Bearer t", "cookie": "c", "Accept": "a"]]
        #expect(secrets.shown(json: message) == ["payload": ["Authorization": "***", "cookie": "***", "Accept": "a"]])
        secrets.remove(header: "cookie")
        #expect(!secrets.contains(member: "Cookie"))
    }

    @Test(arguments: [
        ("CONNECT\nlogin:ada\npasscode: s3c\r\nhost:h\n", "CONNECT\nlogin:ada\npasscode: ***\r\nhost:h\n"),
        ("a:\n  - token: s3c\n    pwd:\ts3c", "a:\n  - token: ***\n    pwd:\t***"),
        ("authorization:Bearer s3c", "authorization:***"), ("the token: s3c", "the token: s3c"), ("token:", "token:"),
        ("auth bearer s3cret-09", "auth bearer ***"), ("Bearer s3cret09==, x", "Bearer ***, x"),
        ("Bearer authentication", "Bearer authentication"), (#"Bearer realm="api""#, #"Bearer realm="api""#),
        (#"{"m":"Bearer s3cret09"}"#, #"{"m":"Bearer ***"}"#), ("xBearer s3cret09", "xBearer s3cret09"),
    ])
    func linesAndBearerTokensAreHidden(_ text: String, _ shown: String) {
        var redactor = Redactor(.standard)
        #expect(redactor.text(text) == shown)
    }

    @Test func codeAndKeyAreSecretInFormsOnly() {
        var secrets = Secrets.standard
        #expect(secrets.contains(parameter: "code") && !secrets.contains(member: "code"))
        #expect(secrets.shown(json: ["key": "a", "token": "b"]) == ["key": "a", "token": "***"])
        secrets.insert(parameter: "code")
        #expect(secrets.contains(member: "code"))
        secrets.show(member: "status.code")
        #expect(!secrets.union(.standard).contains(member: "code"))
        secrets.remove(parameter: "access-token")
        secrets.remove(header: "COOKIE")
        secrets.remove(parameter: "key")
        #expect(!secrets.contains(parameter: "access_token") && !secrets.contains(header: "Cookie"))
        #expect(!secrets.contains(parameter: "key") && secrets.contains(parameter: "token"))
    }

    @Test(arguments: [
        ("next=https%3A%2F%2Fu%3Ap%40h%2F%3Ftoken%3Ds", "next=https%3A%2F%2Fh%2F%3Ftoken%3D***"),
        ("next=/a?token=s", "next=/a?token=***"), ("next=https%253A%252F%252Fh%252F%253Ftoken%253Ds", nil),
        ("next=https%3A%2F%2Fh%2F%3Fa%3D1", "next=https%3A%2F%2Fh%2F%3Fa%3D1"), ("q=50%25@b", "q=50%25@b"),
    ])
    func urlInAParameterHasNoSecrets(_ form: String, _ shown: String?) {
        let text = Secrets.standard.shown(form: form)
        #expect(shown.map { text == $0 } ?? (text.hasSuffix("***") && text.hasPrefix("next=https%253A")), "\(text)")
    }

    @Test(arguments: [
        ("http://u:s@h/x?token=s&a=1#s", "http://h/x?token=***&a=1"), ("http://h/x#\u{301}s", "http://h/x"),
        ("http://u:s?s@h/", "http://…"), ("http://u:s#s@h/?token=s", "http://…"), ("u:s@h/?a=1", "h/?a=1"),
        ("http://h/x?token=s?s", "http://h/x?token=***"),
    ])
    func secretsOfURLsAreHidden(_ url: String, _ shown: String) {
        #expect(Secrets.standard.shown(url: url) == shown)
    }
}
