import Testing

@testable import HTTPCore

@Suite struct MediaTypeTests {
    @Test(
        arguments: [
            ("a.png", "image/png"), ("A.PNG", "image/png"), ("/tmp/x.d/report.pdf", "application/pdf"),
            ("archive.tar.gz", "application/gzip"), ("photo.jpeg", "image/jpeg"), ("clip.MoV", "video/quicktime"),
        ])
    func extensionDeterminesTheType(name: String, type: String) {
        #expect(MediaType.forFileName(name) == type)
    }

    @Test(
        arguments: [
            ("text/html", "text/html"), ("Text/HTML;charset=UTF-8", "text/html"),
            (" text/html\t; a=\"b;c\" ; d", "text/html"), ("text/html ;", "text/html"), ("", ""), ("; a=b", ""),
            ("text / html", "text / html"),
        ])
    func essenceHasNoParameters(contentType: String, essence: String) {
        #expect(MediaType.essence(of: contentType) == essence)
    }

    @Test(arguments: ["", "noextension", "dot.", ".", "/dir.png/file", "a.", "a.no-such-extension-1"])
    func unknownExtensionHasNoType(name: String) {
        #expect(MediaType.forFileName(name) == nil)
    }

    @Test func unknownFileIsOctetStreamAndFieldHasNoType() {
        #expect(UploadFile(name: "f", path: "/tmp/x.no-such-extension-1").contentType == "application/octet-stream")
        #expect(UploadFile(name: "f", path: "/tmp/x.png", contentType: "a/b").contentType == "a/b")
        #expect(UploadFile(name: "f", value: "x").contentType == nil)
    }

    @Test func globs2IsParsed() {
        let table = MediaTypeTable(
            globs2: """
                # a comment
                50:application/vnd.example:*.ex
                60:application/better:*.ex
                50:application/x-compressed-tar:*.tar.gz
                50:application/gzip:*.gz
                50:text/x-c++src:*.C:cs
                50:text/x-csrc:*.c
                50:text/x-makefile:makefile
                50:text/x-odd:*.[0-9]
                broken line
                x:text/plain:*.weight
                50:notype:*.none
                """)
        #expect(table.type(of: "A.EX") == "application/better")
        #expect(table.type(of: "a.tar.gz") == "application/x-compressed-tar")
        #expect(table.type(of: "b.tar.x.gz") == "application/gzip")
        #expect(table.type(of: "main.C") == "text/x-c++src")
        #expect(table.type(of: "main.c") == "text/x-csrc")
        for name in ["makefile", "a.1", "a.weight", "a.none", "a.[0-9]", "ex"] { #expect(table.type(of: name) == nil) }
    }

    @Test func mimeTypesIsParsed() {
        let table = MediaTypeTable(
            mimeTypes: "# comment\napplication/x-ex\t\tex exe\ntext/none\n\napplication/other   ex oth\n")
        #expect(table.type(of: "a.ex") == "application/x-ex")
        #expect(table.type(of: "a.exe") == "application/x-ex")
        #expect(table.type(of: "a.oth") == "application/other")
        #expect(table.type(of: "a.none") == nil)
    }
}
