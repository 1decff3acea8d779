import FoundationEssentials
import Glibc
import LATTesting
import Testing

extension Trait where Self == ConditionTrait {
    /// Skips a test that needs a keyring.
    package static var needsKeyring: Self {
        .enabled(
            if: ["dbus-daemon", "dbus-send", "gnome-keyring-daemon"].allSatisfy { ChildProcess.path(of: $0) != nil }
                && dlopen("libsecret-1.so.0", RTLD_LAZY) != nil,
            "needs dbus, gnome-keyring and libsecret; scripts/setup --tests installs them")
    }
}

/// A session bus with an unlocked GNOME Keyring, in a folder of its own. Releasing this value ends both.
package final class Keyring: Sendable {
    private let folder: String
    private let bus: ChildProcess
    private let service: ChildProcess

    /// What a program needs to find the bus.
    package var environment: [String: String] { ["DBUS_SESSION_BUS_ADDRESS": Self.address(folder)] }

    /// - Parameter folder: An existing folder. Another keyring in the same one has the same items and address.
    package init(in folder: String) async throws {
        self.folder = folder
        let variables = ["HOME=\(folder)", "XDG_DATA_HOME=\(folder)/data", "XDG_RUNTIME_DIR=\(folder)"]
        unlink("\(folder)/bus")
        // That of the system would start another, locked keyring.
        let configuration = """
            <!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
              "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
            <busconfig>
              <type>session</type>
              <listen>\(Self.address(folder))</listen>
              <policy context="default"><allow send_destination="*"/><allow eavesdrop="true"/><allow own="*"/></policy>
            </busconfig>
            """
        try Data(configuration.utf8).write(to: URL(filePath: "\(folder)/bus.conf"))
        bus = try ChildProcess(
            "env", variables + ["dbus-daemon", "--config-file=\(folder)/bus.conf", "--nofork", "--print-address"])
        try await bus.awaitOutput("an address") { $0.contains("guid=") ? true : nil }
        let password = "\(folder)/password"
        try Data("known".utf8).write(to: URL(filePath: password))
        let address = "DBUS_SESSION_BUS_ADDRESS=\(Self.address(folder))"
        service = try ChildProcess(
            "env",
            variables + [address, "gnome-keyring-daemon", "--foreground", "--unlock", "--components=secrets"],
            input: password)
        let question = [
            address, "dbus-send", "--session", "--print-reply", "--dest=org.freedesktop.secrets",
            "/org/freedesktop/secrets",
            "org.freedesktop.Secret.Service.ReadAlias", "string:default",
        ]
        try await eventually("the keyring is unlocked") {
            (try? ChildProcess.run("env", question, in: "/").contains("collection/")) ?? false
        }
    }

    /// Ends the bus, and with it the connections of all programs.
    package func end() {
        bus.killAndWait()
        service.killAndWait()
    }

    private static func address(_ folder: String) -> String { "unix:path=\(folder)/bus" }
}
