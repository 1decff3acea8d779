import FoundationEssentials
import Testing

@testable import HTTPCore

@Suite struct CharsetTests {
    @Test(
        arguments: [
            (nil, "utf-8"), ("text/plain", "utf-8"), ("text/plain; charset=GBK", "GBK"),
            ("text/plain;CHARSET=gbk", "gbk"), ("text/plain; charset=\"gb18030\"", "gb18030"),
            ("text/plain; format=flowed; charset = latin1 ", "latin1"), ("text/plain; charset=", "utf-8"),
            ("text/plain; charset=\"\"", "utf-8"), ("text/plain; a=\"; charset=gbk\"; charset=latin1", "latin1"),
            ("text/plain; charset='koi8-r'", "koi8-r"),
        ] as [(String?, String)])
    func charsetParameterOfMediaTypeIsRead(_ contentType: String?, _ name: String) {
        #expect(Charset.declared(in: contentType).name == name)
    }

    @Test(
        arguments: [
            ("GBK", [0xC4, 0xE3, 0xBA, 0xC3, 0x21], "你好!"), ("gb2312", [0xC4, 0xE3], "你"),
            ("gb2312", [0xE9, 0x46], "镕"), ("shift_jis", [0x87, 0x40], "①"), ("euc-kr", [0x8C, 0x63], "똠"),
            ("GB18030", [0x95, 0x32, 0x82, 0x36], "𠀀"), ("Big5", [0xA7, 0x41], "你"),
            ("Shift_JIS", [0x82, 0xB1], "こ"), ("EUC-KR", [0xB0, 0xA1], "가"),
            ("ISO-2022-JP", [0x1B, 0x24, 0x42, 0x24, 0x33, 0x1B, 0x28, 0x42], "こ"),
            ("iso-8859-1", [0xE9, 0x80], "é€"), ("latin1", [0xFF], "ÿ"), ("Latin-1", [0x81], "\u{81}"),
            ("windows-1252", [0x80], "€"), ("iso-8859-15", [0xA4], "€"), ("koi8-r", [0xC1], "а"),
            ("utf-8", [0xEF, 0xBB, 0xBF, 0x68], "h"), ("UTF8", [0x68, 0xC3, 0xA9], "hé"), ("us-ascii", [0x68], "h"),
            ("utf-16", [0xFF, 0xFE, 0x68, 0x00], "h"), ("utf-16le", [0x68, 0x00], "h"),
            ("utf-16be", [0x00, 0x68], "h"),
        ] as [(String, [UInt8], String)])
    func knownCharsetsAreDecoded(_ name: String, _ bytes: [UInt8], _ text: String) {
        #expect(Charset(name).decode(Data(bytes)) == text)
        #expect(Charset(name).decode(Data([0x00] + bytes).dropFirst()) == text)
    }

    /// In these charsets iconv holds the last letter back until it knows that no combining mark follows.
    @Test(
        arguments: [
            ("windows-1258", [0x63, 0x68, 0x61], "cha"), ("TCVN5712-1", [0x63, 0x68, 0x61], "cha"),
            ("Big5-HKSCS", [0x41, 0x88, 0x66], "AÊ"),
        ] as [(String, [UInt8], String)])
    func lastLetterIsNotLost(_ name: String, _ bytes: [UInt8], _ text: String) {
        #expect(Charset(name).decode(Data(bytes)) == text)
    }

    @Test(
        arguments: [
            ("utf-8", [0xFF]), ("utf-8", [0xC3]), ("GBK", [0xC4]), ("x-unheard-of", [0x68]),
            ("utf-16", [0x68]),
        ] as [(String, [UInt8])])
    func invalidBytesAndUnknownCharsetsAreNil(_ name: String, _ bytes: [UInt8]) {
        #expect(Charset(name).decode(Data(bytes)) == nil)
    }

    @Test func longTextIsDecodedWhole() {
        let pair: [UInt8] = [0xC4, 0xE3]
        let bytes = Data((0..<100_000).flatMap { _ in pair })
        #expect(Charset("GBK").decode(bytes) == String(repeating: "你", count: 100_000))
        #expect(Charset("GBK").decode(Data()) == "")
    }
}
