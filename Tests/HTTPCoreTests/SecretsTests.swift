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

    @Test(arguments: [
        ("http://u:s@h/x?token=s&a=1#s", "http://h/x?token=***&a=1"), ("http://h/x#\u{301}s", "http://h/x"),
        ("http://u:s?s@h/", "http://…"), ("http://u:s#s@h/?token=s", "http://…"), ("u:s@h/?a=1", "h/?a=1"),
        ("http://h/x?token=s?s", "http://h/x?token=***"),
    ])
    func secretsOfURLsAreHidden(_ url: String, _ shown: String) {
        #expect(Secrets.standard.shown(url: url) == shown)
    }
}
