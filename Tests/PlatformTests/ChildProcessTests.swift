import Dispatch
import FoundationEssentials
import Glibc
import Platform
import TestSupport
import Testing

/// How tests start programs.
@Suite(.needs("sh"), .timeLimit(.minutes(1)))
struct ChildProcessTests {
    /// A program that a task starts must survive its thread, which ends when it is idle.
    @Test func programOutlivesTheThreadThatAskedForIt() async throws {
        let child = Box<ChildProcess?>(nil)
        let mayEnd = DispatchSemaphore(value: 0)
        let thread = try #require(
            BackgroundThread.make("short") {
                child.change {
                    $0 = try? ChildProcess("sh", ["-c", "trap 'echo on' USR1; echo up; while :; do sleep 0.05; done"])
                }
                mayEnd.wait()
            })
        try await eventually("the program") { child.value != nil }
        let program = try #require(child.value)
        try await program.awaitOutput("its start") { $0.contains("up") ? () : nil }
        mayEnd.signal()
        pthread_join(thread, nil)
        program.send(SIGUSR1)
        try await program.awaitOutput("a sign of life") { $0.contains("on") ? () : nil }
        program.killAndWait()
        #expect(program.hasEnded)
    }

    /// When this test runs alone, a thread in a namespace creates the thread that starts all programs.
    @Test(.needsNetworkNamespaces)
    func programsAreInTheNetworkOfTheProcess() async throws {
        let program = try NetworkNamespace.run {
            try #require(NetworkNamespace.isEntered)
            return try ChildProcess("readlink", ["/proc/self/ns/net"])
        }
        let network = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/ns/net")
        try await program.awaitOutput("the network of the process") { $0.contains(network) ? () : nil }
    }
}
