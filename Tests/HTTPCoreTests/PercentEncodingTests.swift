import HTTPCore
import Testing

@Suite("Percent-encoding")
struct PercentEncodingTests {
    @Test(arguments: [
        ("", ""), ("azAZ09-._~", "azAZ09-._~"), ("a b", "a%20b"), ("%20", "%2520"), ("/?#", "%2F%3F%23"),
        ("!$&'()*+,;=:@[]", "%21%24%26%27%28%29%2A%2B%2C%3B%3D%3A%40%5B%5D"), ("é雪🙂", "%C3%A9%E9%9B%AA%F0%9F%99%82"),
        ("\0\r\n\u{7F}", "%00%0D%0A%7F"), ("../x", "..%2Fx"),
    ])
    func componentsKeepOnlyUnreservedCharacters(_ text: String, _ expected: String) {
        #expect(text.percentEncodedComponent == expected)
    }

    @Test(arguments: [
        ("http://h/a b?c d#e f", "http://h/a%20b?c%20d#e%20f"),
        ("http://h/a%20b%2fc", "http://h/a%20b%2fc"),
        ("http://h/100%", "http://h/100%25"),
        ("http://h/%zz%4", "http://h/%25zz%254"),
        ("http://h/%%20", "http://h/%25%20"),
        ("http://h/%é", "http://h/%25%C3%A9"),
        ("http://h/雪?ü=ö#ß", "http://h/%E9%9B%AA?%C3%BC=%C3%B6#%C3%9F"),
        ("http://h/\"<>\\^`{|}", "http://h/%22%3C%3E%5C%5E%60%7B%7C%7D"),
        ("http://h/\t\r\n\u{7F}", "http://h/%09%0D%0A%7F"),
        ("http://h/-._~:/?[]@!$&'()*+,;=", "http://h/-._~:/?[]@!$&'()*+,;="),
        ("http://h/p#a#b", "http://h/p#a%23b"),
        ("http://h/e\u{301}", "http://h/e%CC%81"),
        ("http://h/?\u{301}", "http://h/?%CC%81"),
        ("http://h", "http://h"), ("", ""),
        ("a b/c", "a%20b/c"), ("/ü", "/%C3%BC"), ("?q=ü", "?q=%C3%BC"),
    ])
    func urlsAreEscapedWhereNecessary(_ url: String, _ expected: String) {
        #expect(url.idempotentlyPercentEncoded == expected)
    }

    @Test(arguments: [
        ("http://bücher.example/ü", "http://bücher.example/%C3%BC"),
        ("HTTPS://üser:pä ss@[::1]:8080?ü", "HTTPS://üser:pä ss@[::1]:8080?%C3%BC"),
        ("//bücher.example#ü", "//bücher.example#%C3%BC"),
        ("git+ssh://h%/%", "git+ssh://h%/%25"),
        ("http://bücher.example", "http://bücher.example"),
    ])
    func schemeAndAuthorityAreNotEscaped(_ url: String, _ expected: String) {
        #expect(url.idempotentlyPercentEncoded == expected)
    }

    @Test(arguments: [
        ("/go?to=http://ü/", "/go?to=http://%C3%BC/"), ("sch ema://ü", "sch%20ema://%C3%BC"), ("://ü", "://%C3%BC"),
        ("1a://ü", "1a://%C3%BC"), ("mailto:ü", "mailto:%C3%BC"), ("http:/ü", "http:/%C3%BC"),
    ])
    func lookalikesOfAnAuthorityAreEscaped(_ url: String, _ expected: String) {
        #expect(url.idempotentlyPercentEncoded == expected)
    }

    @Test func escapingTwiceChangesNothing() {
        var random = SplitMix64(state: 7)
        for prefix in ["", "http://h/", "//h/", "http:", "a"] {
            for _ in 0..<4_000 {
                let url = prefix + String.random(using: &random, maximumLength: 16)
                let once = url.idempotentlyPercentEncoded
                #expect(Array(once.idempotentlyPercentEncoded.utf8) == Array(once.utf8), "\(url.debugDescription)")
            }
        }
    }

    @Test func escapedTextIsASCIIAndDecodesBack() {
        var random = SplitMix64(state: 9)
        for _ in 0..<4_000 {
            let text = String.random(using: &random, maximumLength: 16)
            let component = text.percentEncodedComponent
            #expect(component.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F })
            #expect(decoded(component) == Array(text.utf8))
            let url = ("http://h/" + text).idempotentlyPercentEncoded
            #expect(url.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F })
            #expect(decoded(url) == decoded("http://h/" + text))
        }
    }

    @Test func decodingKeepsMalformedEscapes() {
        #expect("a%20b+c%zz%4%"[...].percentDecoded() == "a b+c%zz%4%")
        #expect("a+b%2B%c3%A4"[...].percentDecoded(plusIsSpace: true) == "a b+ä")
        #expect("%FF"[...].percentDecoded() == "\u{FFFD}")
        #expect("x%C3%A4"[...].percentDecodedBytes == [0x78, 0xC3, 0xA4])
        for text in ["%", "%4", "%zz", "a%+1"] { #expect(text[...].percentDecodedBytes == nil) }
    }

    private func decoded(_ text: String) -> [UInt8] {
        let bytes = Array(text.utf8)
        var result: [UInt8] = []
        var index = 0
        while index < bytes.count {
            if bytes[index] == UInt8(ascii: "%"), index + 2 < bytes.count, bytes[index + 1] != UInt8(ascii: "+"),
                let byte = UInt8(String(decoding: bytes[(index + 1)...(index + 2)], as: UTF8.self), radix: 16)
            {
                result.append(byte)
                index += 3
            } else {
                result.append(bytes[index])
                index += 1
            }
        }
        return result
    }
}
