import LATNetworking
import Testing

@testable import lat

/// Items, the operands of a request, and whether the first word is a URL, a method or neither.
@Suite struct RequestItemTests {
    @Test(arguments: [
        ("name=Ada", RequestItem(.text, "name", "Ada")), ("name=", .init(.text, "name", "")),
        ("age:=36", .init(.json, "age", "36")), ("X-Trace:1", .init(.header, "X-Trace", "1")),
        ("X-Trace:", .init(.header, "X-Trace", "")), ("X-Empty;", .init(.emptyHeader, "X-Empty", "")),
        ("X-Sig:@sig.txt", .init(.headerFile, "X-Sig", "sig.txt")), ("q==a b", .init(.query, "q", "a b")),
        ("q==@q.txt", .init(.queryFile, "q", "q.txt")), ("doc@a.pdf", .init(.file, "doc", "a.pdf")),
        ("@a.json", .init(.file, "", "a.json")), ("text=@a.txt", .init(.textFile, "text", "a.txt")),
        ("data:=@a.json", .init(.jsonFile, "data", "a.json")), ("X-Origin://b", .init(.header, "X-Origin", "//b")),
        // The first separator counts. Where several begin at the same character, the longest one counts.
        ("a=b==c", .init(.text, "a", "b==c")), ("a=x:y@z", .init(.text, "a", "x:y@z")),
        ("Date:12:30=now", .init(.header, "Date", "12:30=now")), ("user[name]=x", .init(.text, "user[name]", "x")),
        ("a@b;type=text/csv", .init(.file, "a", "b;type=text/csv")),
        // Escapes.
        (#"a\=b=c"#, .init(.text, "a=b", "c")), (#"a\:b:c"#, .init(.text, "a:b:c", "")),
        (#"a=b\=c"#, .init(.text, "a", "b=c")), (#"a=c:\new"#, .init(.text, "a", #"c:\new"#)),
        (#"at\@=x"#, .init(.text, "at@", "x")), (#"a=\"#, .init(.text, "a", #"\"#)),
    ])
    func separatorsMakeTheKinds(text: String, item: RequestItem) throws {
        guard text != #"a\:b:c"# else {
            #expect(throws: UsageError.self) { try RequestItem(text) }  // "a:b" is no name of a field.
            return
        }
        #expect(try RequestItem(text) == item)
    }

    @Test(arguments: [
        ("Ada", "\"Ada\" is no item: it has none of = := == : @; write name=text, name:=json"),
        ("=x", "\"=x\" has no name before the ="), (":=1", "\":=1\" has no name before the :="),
        ("==x", "\"==x\" has no name before the =="), ("a@", "\"a@\" names no file; write a@FILE"),
        ("a=@", "\"a=@\" names no file; write a=@FILE"), ("X;y", "\"X;y\" has text after the semicolon; write 'X:y'"),
        ("WSS://b/", "is a second URL"), ("http://b/", "\"http://b/\" is a second URL; give one URL for each request"),
        ("X Y:1", "\"X Y:1\" has no usable name before the colon"), ("X:a\nb", "contains a control character"),
        (":1", "\":1\" has no usable name before the colon"),
    ])
    func unusableItemsNameTheNextStep(text: String, message: String) throws {
        let error = #expect(throws: UsageError.self) { try RequestItem(text) }
        #expect(error?.message.contains(message) == true, "\(error?.message ?? "")")
        #expect(error?.message.contains("\n") == false)
    }

    @Test func nestedNamesMakeObjectsAndLists() throws {
        func document(_ fields: (String, JSONValue)...) throws -> JSONValue? {
            var nested = NestedFields()
            for (name, value) in fields { try nested.add(name, value) }
            return nested.value
        }
        #expect(
            try document(("a[b][c]", 1), ("a[b][d]", "x"), ("t[]", "p"), ("t[]", "q"), ("n[2]", true))
                == ["a": ["b": ["c": 1, "d": "x"]], "t": ["p", "q"], "n": [nil, nil, true]])
        #expect(try document(("[]", 1), ("[]", 2)) == [1, 2])
        #expect(try document((#"a\[b\]"#, 1)) == ["a[b]": 1])
        for (names, message) in [
            (["a", "a"], "\"a\" is given twice; for a list write a[]=a a[]=b"),
            (["a", "a[b]"], "\"a[b]\" needs an object, but an item before it made something else; use one form"),
            (["a[b]", "a[]"], "\"a[]\" needs a list, but an item before it made something else; use one form"),
            (["a[b"], "the name \"a[b\" has a bracket that is not closed; write name[member], name[] or name[0]"),
            (["a[b]c"], "the name \"a[b]c\" has text after a bracket; write name[member], name[] or name[0]"),
            (["a[10000]"], "the name \"a[10000]\" has an index above 9999; write name[member], name[] or name[0]"),
        ] {
            #expect(throws: UsageError(message)) {
                var nested = NestedFields()
                for name in names { try nested.add(name, 1) }
            }
        }
    }

    @Test(arguments: [
        (":8080/get", "http://localhost:8080/get"), (":", "http://localhost"), (":/x", "http://localhost/x"),
        (":8080", "http://localhost:8080"), ("localhost:8080/x", "http://localhost:8080/x"),
        ("example.org/x?y=1", "http://example.org/x?y=1"), ("example.org:443/x", "https://example.org:443/x"),
        ("https://h", "https://h"), ("HTTP://h", "HTTP://h"), ("[::1]:80/", "http://[::1]:80/"), ("h/x", "http://h/x"),
        (":8080/login?next=https://a/", "http://localhost:8080/login?next=https://a/"),
        ("h?next=ftp://a", "http://h?next=ftp://a"),
    ])
    func urlsAreCompleted(text: String, url: String) throws { #expect(try URLArgument.checked(text) == url) }

    @Test(arguments: [
        ("ftp://h", "URL \"ftp://h\" has a scheme other than http and https; lat sends only these two"),
        ("", "URL \"\" is empty or has a space; write http://host/path, with %20 instead of a space"),
        ("h/a b", "URL \"h/a b\" is empty or has a space; write http://host/path, with %20 instead of a space"),
    ])
    func unusableURLsAreRefused(text: String, message: String) {
        #expect(throws: UsageError(message)) { try URLArgument.checked(text) }
    }

    @Test func firstWordOfARequestIsURLOrMethod() {
        for word in [
            ":8080", ":", ":/x", "localhost", "localhost:8080", "example.org", "10.0.0.1", "h/x", "h:80", "http://h",
            "[::1]",
            "get", "GET", "post", "PROPFIND", "M-SEARCH", "options", "Delete",
        ] {
            #expect(RequestLine.begins(with: word), "\(word)")
        }
        for word in ["reqest", "launch", "dmo", "", "-", ":x", "h:x", "{}", "a=b", "Requests"] {
            #expect(!RequestLine.begins(with: word), "\(word)")
        }
    }

    @Test func methodIsOptional() throws {
        func method(_ words: String...) throws -> String {
            try #require(try Invocation(words).command as? RequestCommand).method
        }
        #expect(try method(":80") == "GET" && method("request", ":80") == "GET")
        #expect(try method(":80", "q==1", "X:1") == "GET" && method(":80", "-p", "a=1") == "GET")
        #expect(try method(":80", "a=1") == "POST" && method(":80", "a:=1") == "POST" && method(":80", "f@a") == "POST")
        #expect(
            try method(":80", "{}") == "POST" && method(":80", "@a") == "POST" && method(":80", "-d", "x") == "POST")
        #expect(try method(":80", "--json", "{}") == "POST" && method(":80", "-F", "a=b") == "POST")
        #expect(try method("PUT", ":80", "a=1") == "PUT" && method("delete", ":80") == "delete")
        #expect(try method("request", "purge", "http://h/") == "purge" && method("localhost", "a=b") == "POST")
        #expect(try method("-v", ":80") == "GET" && method("--json={}", ":80") == "POST")
    }

    @Test(arguments: [
        (["GET"], "URL is missing; write lat GET URL, such as lat GET :8080/"),
        (["request"], "URL is missing; write lat [METHOD] URL, such as lat :8080/ or lat POST :8080/ name=Ada"),
        (["reqest", ":80"], "unknown command \"reqest\"; did you mean \"request\"?"),
        (["-v", "request", ":80"], "-v stands before the command; write lat request first, and options after it"),
        ([":80", "{}", "[]"], "two JSON documents are given; a request has one body, so give one"),
        (
            [":80", "{}", "a=1"],
            "the JSON after the URL and the item \"a=1\" cannot be combined; a request has one body, so give one of them"
        ),
        ([":80", "@a", "@b"], "\"@a\" and \"@b\" cannot be combined; a request has one body, so give one of them"),
        ([":80", "-f", "@b"], "\"@b\" and --form cannot be combined; a request has one body, so give one of them"),
        (
            [":80", "-p", "a=1", "b=2"],
            "--parameter \"a=1\" and the item \"b=2\" cannot be combined; write both as items, name==text for the query"
        ),
        ([":80", "--json", "@"], "--json \"@\" names no file; write a file, JSON, or - for standard input"),
        ([":80", "--digest"], "--digest needs credentials; add -u USER:PASSWORD"),
        ([":80", "-u", "a:b", "--bearer", "t"], "--user and --bearer cannot be combined; give one of them"),
        ([":80", "--bearer", ""], "--bearer is empty; write --bearer TOKEN"),
        ([":80", "--key", "k"], "--key needs a certificate; add --cert FILE"),
        ([":80", "--cert", "a.p12", "--key", "k"], "--key is not for a.p12, which has its key in it; leave it out"),
        (
            [":80", "--no-follow", "--max-redirects", "1"],
            "--no-follow and --max-redirects cannot be combined; give one of them"
        ),
        ([":80", "--cookies", ""], "--cookies \"\" names no file; write -b FILE"),
        ([":80", "-O", "-o", "-"], "--output \"-\" names no file for --download; name one, or leave --output out"),
        (
            [":80", "--connect-to", "a:1"],
            "--connect-to \"a:1\" is not of the form HOST:PORT:HOST2:PORT2; write ::127.0.0.1:8080 for any host and port"
        ),
        (
            [":80", "--resolve", "a:80:b"],
            "--resolve \"a:80:b\" does not end with an IP address; write HOST:PORT:ADDRESS, such as example.org:443:127.0.0.1"
        ),
        (
            [":80", "--resolve", "a"],
            "--resolve \"a\" does not end with an IP address; write HOST:PORT:ADDRESS, such as example.org:443:127.0.0.1"
        ),
        ([":80", "--retry", "many"], "--retry \"many\" is not a number from 0 to 1000"),
    ])
    func unusableLinesNameTheNextStep(arguments: [String], message: String) {
        #expect(throws: UsageError(message)) { try Invocation(arguments) }
    }

    @Test func resolveOptionCoversPortsOfTheURL() throws {
        func addresses(_ url: String, _ value: String) throws -> [String: String] {
            try #require(try Invocation([url, "--resolve", value]).command as? RequestCommand).connection.addresses
        }
        #expect(try addresses("h/", "h:8080:127.0.0.1,::1") == ["h:8080": "127.0.0.1,::1"])
        #expect(try addresses("h:81/x", "h:[::1]") == ["h:80": "[::1]", "h:443": "[::1]", "h:81": "[::1]"])
        #expect(try addresses("h/", "h:::1") == ["h:80": "::1", "h:443": "::1"])
    }

    @Test func badJSONAfterTheURLIsReported() throws {
        let error = #expect(throws: UsageError.self) { try Invocation([":80", "{a: 1}"]) }
        #expect(error?.message.hasPrefix("\"{a: 1}\" begins like JSON but is invalid (line 1, column 2") == true)
        #expect(error?.message.hasSuffix("correct it, or give items such as name=text") == true)
        #expect(try (Invocation([":80", "[0]:=1"]).command as? RequestCommand)?.line.items.count == 1)
    }
}
