import LATNetworking
import Testing

@testable import lat

@Suite struct RequestCommandTests {
    private func request(_ arguments: String...) throws -> RequestCommand {
        try #require(try Invocation(["request"] + arguments).command as? RequestCommand)
    }

    @Test func shortestCommandHasOnlyDefaults() throws {
        let command = try request("get", "http://127.0.0.1/")
        #expect(command.method == "get" && command.url == "http://127.0.0.1/" && !command.line.isCompleted)
        #expect(
            command.parameters.isEmpty && command.line.items.isEmpty && command.line.document == nil
                && command.headers.isEmpty && command.files.isEmpty)
        #expect(command.content == nil && command.output == nil && command.timeout == nil && command.proxy == nil)
        #expect(command.followsRedirects && !command.showsHead && !command.isVerbose && !command.usesHTTP2)
        #expect(command.format == .text)
    }

    @Test func optionsAreParsed() throws {
        let command = try request(
            "PUT", "https://h/x", "-p", "a=1", "-H", "X: y", "-F", "img=a=b.png", "--form", "-o", "out", "--timeout",
            "900ms",
            "--connect-timeout=2s", "--proxy", "socks5h://127.0.0.1:1080", "--no-follow", "-iv", "-u", "ada:pass:word",
            "--http2", "--unix-socket", "/run/s", "--format", "json")
        #expect(command.parameters == ["a": "1"] && command.headers["X"] == "y")
        #expect(command.files == [.init(name: "img", path: "a=b.png")] && command.content == nil)
        #expect(command.output == "out" && command.format == .json)
        #expect(command.timeout == .milliseconds(900) && command.connectTimeout == .seconds(2))
        #expect(command.proxy == "socks5h://127.0.0.1:1080" && command.unixSocket == "/run/s")
        #expect(!command.followsRedirects && command.showsHead && command.isVerbose && command.usesHTTP2)
        #expect(command.authentication == .basic(user: "ada", password: "pass:word"))
    }

    @Test func bodySourcesAreParsed() throws {
        let url = "http://h/"
        #expect(try request("POST", url, "--json", "a.json").content == .jsonFile("a.json"))
        #expect(try request("POST", url, "--json", "@a.json").content == .jsonFile("a.json"))
        #expect(try request("POST", url, "--json", "-").content == .jsonInput)
        #expect(try request("POST", url, "--json", "[1]").content == .jsonText("[1]"))
        #expect(try request("POST", url, "{}").content == .jsonText("{}"))
        #expect(try request("POST", url, "-d", "a b").content == .text("a b"))
        #expect(try request("POST", url, "--data=@a.bin").content == .file("a.bin"))
        #expect(try request("POST", url, "-d", "@-").content == .input)
        #expect(try request("POST", url, "--form").content == .form)
        #expect(try request("GET", url, "-o", "-").output == nil)
    }

    @Test(arguments: [
        (["GET", "ftp://h"], "URL \"ftp://h\" has a scheme other than http and https; lat sends only these two"),
        (["G ET", "http://h/"], "METHOD \"G ET\" is not a method; write GET, POST or another word of letters"),
        (
            ["POST", "http://h/", "--json", "a", "-d", "b"],
            "--json and --data cannot be combined; a request has one body, so give one of them"
        ),
        (
            ["POST", "http://h/", "-F", "a=b", "-d", "b"],
            "--data and --file cannot be combined; a request has one body, so give one of them"
        ),
        (["POST", "http://h/", "-F", "a"], "--file \"a\" is not of the form NAME=PATH; write -F image=photo.png"),
        (["GET", "http://h/", "-d", "@"], "--data \"@\" names no file; write @FILE, or @- for standard input"),
        (["GET", "http://h/", "-u", "secret"], "--user has no colon; write USER:PASSWORD"),
        (["GET", "http://h/", "--format", "xml"], "--format \"xml\" is unknown; write text or json"),
        (["GET", "http://h/", "-o", ""], "--output \"\" names no file; write -o FILE"),
    ])
    func unusableRequestsNameTheNextStep(arguments: [String], message: String) {
        #expect(throws: UsageError(message)) { try Invocation(["request"] + arguments) }
    }

    @Test(arguments: [
        ([], "no command is given; lat help lists the commands"),
        (["reqest"], "unknown command \"reqest\"; did you mean \"request\"?"),
        (["launch"], "unknown command \"launch\"; lat help lists the commands"),
        (["--jso"], "unknown option --jso before the command; lat help lists the commands"),
        (["--json"], "--json needs a value; write --json JSON|FILE|-"),
        (["help", "dmo"], "unknown command \"dmo\"; did you mean \"demo\"?"),
        (["demo", "fast"], "demo takes no arguments, found \"fast\"; write lat demo"),
    ])
    func unknownCommandsNameTheNextStep(arguments: [String], message: String) {
        #expect(throws: UsageError(message)) { try Invocation(arguments) }
    }

    @Test func helpIsShownDespiteOtherMistakes() throws {
        let help = try Invocation(["request", "--nonsense", "--help"]).command as? HelpCommand
        #expect(help?.topic == RequestCommand.self)
        #expect(try Invocation(["-h"]).command is HelpCommand)
        #expect(try Invocation(["--version"]).command is VersionCommand)
        #expect(throws: UsageError.self) { try Invocation(["request", "--", "--help"]) }
    }
}
