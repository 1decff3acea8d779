import FoundationEssentials
import Glibc
import Synchronization
import TestSupport

/// Two network namespaces with a cable between them (ip-netns(8), veth(4)): one for a client, one for a server. They do
/// not change the machine's own network, and are removed when this object is released.
final class NetworkNamespace: Sendable {
    /// The client's namespace.
    let client: String
    /// The server's namespace.
    let server: String
    let clientAddress = "10.99.0.1"
    let serverAddress = "10.99.0.2"
    let link = "lat0"

    private static let count = Mutex(0)
    private static let program: String? = ["/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip"].first { (path: String) in
        access(path, X_OK) == 0
    }

    /// Whether this process may make namespaces. If it may not, the reason is printed once.
    static let isPermitted: Bool = {
        guard let program else {
            print("skipped: network namespaces need iproute2; scripts/setup --tests installs it")
            return false
        }
        let name = "lat-try-\(getpid())"
        guard run([program, "netns", "add", name]) == 0 else {
            print("skipped: this user may not make network namespaces (ip netns add); run the tests as root")
            return false
        }
        defer { run([program, "netns", "del", name]) }
        let pair = ["link", "add", "lat0", "netns", name, "type", "veth", "peer", "name", "lat1", "netns", name]
        guard run([program] + pair) == 0 else {
            print("skipped: the kernel makes no veth pairs here (ip link add type veth)")
            return false
        }
        return true
    }()

    init() throws {
        let number = Self.count.withLock { count in
            count += 1
            return count
        }
        client = "lat-c\(getpid())-\(number)"
        server = "lat-s\(getpid())-\(number)"
        for name in [client, server] {
            try Self.ip("netns", "add", name)
            try Self.ip("-n", name, "link", "set", "lo", "up")
        }
        try Self.ip("link", "add", link, "netns", client, "type", "veth", "peer", "name", link, "netns", server)
        try Self.ip("-n", client, "addr", "add", clientAddress + "/24", "dev", link)
        try Self.ip("-n", server, "addr", "add", serverAddress + "/24", "dev", link)
        for name in [server, client] { try Self.ip("-n", name, "link", "set", link, "up") }
    }

    deinit {
        for name in [client, server] { try? Self.ip("netns", "del", name) }
        _ = try? FileManager.default.removeItem(atPath: "/etc/netns/\(client)")
    }

    /// Changes the client's network.
    func change(_ words: String...) throws { try Self.ip(["-n", client] + words) }

    /// Changes the server's network.
    func changeServer(_ words: String...) throws { try Self.ip(["-n", server] + words) }

    /// The command that runs a program in the client's namespace.
    var launcher: [String] { [Self.program ?? "ip", "netns", "exec", client] }

    /// The command that runs a program in the server's namespace.
    var serverLauncher: [String] { [Self.program ?? "ip", "netns", "exec", server] }

    /// Sets the name server of programs in the client's namespace.
    func setNameServer(_ address: String) throws {
        try FileManager.default.createDirectory(
            atPath: "/etc/netns/\(client)", withIntermediateDirectories: true)
        try Data("nameserver \(address)\noptions timeout:1 attempts:1\n".utf8)
            .write(to: URL(filePath: "/etc/netns/\(client)/resolv.conf"))
    }

    /// Starts a Python program in the server's namespace; returns when the program reports that it is ready.
    func startServer(_ program: String) async throws -> LatProcess {
        let process = try LatProcess(
            ["python3", "-u", "-c", program], launcher: serverLauncher, program: "/usr/bin/env")
        let lines = await process.lines(1)
        guard lines.first == "ready" else {
            throw LatProcess.Failure(what: "the server did not start: \(await process.result.err)")
        }
        return process
    }

    /// Runs a closure on a thread in the client's namespace; threads that it starts are in that namespace too.
    func inClient<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
        let path = "/run/netns/\(client)"
        return try await withCheckedThrowingContinuation { continuation in
            LatProcess.onThread {
                continuation.resume(
                    with: Result {
                        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
                        defer { close(descriptor) }
                        typealias SetNS = @convention(c) (Int32, Int32) -> Int32
                        guard descriptor >= 0, let symbol = dlsym(nil, "setns"),
                            unsafeBitCast(symbol, to: SetNS.self)(descriptor, 0x4000_0000 /* CLONE_NEWNET */) == 0
                        else { throw LatProcess.Failure(what: "cannot enter \(path), errno \(errno)") }
                        return try body()
                    })
            }
        }
    }

    // MARK: Commands

    private static func ip(_ words: String...) throws { try ip(words) }

    private static func ip(_ words: [String]) throws {
        guard run([program ?? "ip"] + words) == 0 else {
            throw LatProcess.Failure(what: "ip \(words.joined(separator: " ")) failed")
        }
    }

    @discardableResult
    private static func run(_ command: [String]) -> Int32 {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for descriptor in [1, 2] as [Int32] {
            posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/null", O_WRONLY, 0)
        }
        var words = command.map { strdup($0) } + [nil]
        var variables = [strdup("PATH=/usr/sbin:/usr/bin:/sbin:/bin"), nil]
        defer { for text in words + variables { free(text) } }
        var identifier: pid_t = 0
        guard posix_spawn(&identifier, command[0], &actions, nil, &words, &variables) == 0 else { return -1 }
        var status: Int32 = 0
        while waitpid(identifier, &status, 0) < 0, errno == EINTR {}
        return status
    }
}
