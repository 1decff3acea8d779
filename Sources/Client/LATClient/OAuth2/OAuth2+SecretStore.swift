import FoundationEssentials
import Glibc
public import HTTPCore
import Platform

extension OAuth2 {
    /// Keeps a token in the Secret Service of the desktop (GNOME Keyring, KWallet, KeePassXC), which encrypts it with the
    /// user's password. It is called by libsecret (`libsecret-1.so.0`), which is loaded when a store is made.
    ///
    /// Processes take turns in renewing the token, with the lock of ``FileStore/standard(for:)``. A service that asks the user
    /// to unlock the keyring has as long as the limit.
    public struct SecretStore: TokenStore {
        private let name: String
        private let label: String
        private let limit: Duration
        private let turns: FileStore
        private let library: SecretLibrary

        /// Creates a store for the token of a client.
        ///
        /// - Parameters:
        ///   - settings: The server and the client. Stores for the same ones share a token.
        ///   - limit: The longest time that reading or storing takes. Default 30 s.
        /// - Throws: ``NetworkError/Kind/storage`` where libsecret is not installed, and for a process without a home.
        public init(for settings: Settings, within limit: Duration = .seconds(30)) throws(NetworkError) {
            guard let library = SecretLibrary.shared else {
                throw Self.failure(
                    "cannot be used, because libsecret-1.so.0 is not installed; install libsecret-1-0, or keep the token in "
                        + "a file")
            }
            self.library = library
            self.limit = limit
            turns = try FileStore.standard(for: settings)
            name = settings.fileName
            label = "Token of \(settings.clientID) at \(URLParts.redacted(settings.place))"
        }

        /// Reads the token.
        ///
        /// - Throws: ``NetworkError/Kind/storage`` if the service does not answer in time or refuses.
        public func token() async throws -> Token? {
            guard let text = try await run({ try library.password(of: name, $0) }) else { return nil }
            do {
                return try FileStore.decoder.decode(Token.self, from: Data(text.utf8))
            } catch {
                throw Self.failure("has something else than a token under \"\(name)\"; remove it, and sign in again")
            }
        }

        /// Replaces the token, or removes it.
        ///
        /// - Throws: ``NetworkError/Kind/storage`` if the service does not answer in time or refuses.
        public func store(_ token: Token?) async throws {
            guard let token else { return try await run { try library.remove(name, $0) } }
            let text = String(decoding: try FileStore.encoder.encode(token), as: UTF8.self)
            try await run { try library.store(text, as: name, label, $0) }
        }

        /// Runs work while no other process does, as ``FileStore`` says.
        ///
        /// - Throws: ``NetworkError/Kind/storage`` if the lock cannot be made; what the work throws.
        public func exclusively(_ work: @Sendable () async throws -> Void) async throws {
            try await turns.exclusively(work)
        }

        /// Calls the library on a thread of its own, because it blocks. A call that is late is told to end, and its result is
        /// dropped.
        private func run<Value: Sendable>(
            _ work: @escaping @Sendable (SecretLibrary.Cancellation) throws -> Value
        ) async throws -> Value {
            let waiter = Waiter<Value>()
            let cancellation = library.makeCancellation()
            let isStarted = BackgroundThread.start("lat-secrets") {
                waiter.end(Result { try work(cancellation) })
            }
            guard isStarted else { throw Self.failure("cannot be asked: \(SystemError().text)") }
            defer { cancellation.cancel() }
            let late = Self.failure(
                "has not answered within \(limit); unlock the keyring, or keep the token in a file")
            do {
                return try await TimeLimits().value(of: waiter, within: limit, late: .failure(late))
            } catch let error as SecretLibrary.Failure {
                throw Self.failure(
                    "failed: \(URLText.visible(String(error.text.prefix(300)))); start and unlock a keyring, or keep the "
                        + "token in a file")
            }
        }

        private static func failure(_ reason: String) -> NetworkError {
            NetworkError(.storage, message: "the Secret Service \(reason)")
        }
    }
}

/// The functions of libsecret, and of the GLib that it is linked with.
///
/// They are called by address, so that neither library is needed to build or to run a program.
///
/// `@unchecked Sendable`: it has only addresses and a description in memory that nothing changes, and each function may be
/// called on any thread.
private final class SecretLibrary: @unchecked Sendable {
    typealias Pointer = UnsafeMutableRawPointer
    private typealias Text = UnsafePointer<CChar>
    /// A place for a `GError`.
    private typealias Problem = UnsafeMutablePointer<Pointer?>

    struct Failure: Error {
        let text: String
    }

    private struct MissingFunction: Error {}

    /// A `GCancellable`, which ends a call from another thread. GLib locks it, so it is `@unchecked Sendable`.
    final class Cancellation: @unchecked Sendable {
        fileprivate let pointer: Pointer
        private let library: SecretLibrary

        fileprivate init(_ library: SecretLibrary) {
            pointer = library.newCancellable()
            self.library = library
        }

        func cancel() { library.cancelCancellable(pointer) }

        deinit { library.release(pointer) }
    }

    /// The library; `nil` where it is missing.
    static let shared = try? SecretLibrary()

    private let storePassword: @convention(c) (Pointer, Pointer, Text?, Text, Text, Pointer, Problem) -> CInt
    private let lookUp: @convention(c) (Pointer, Pointer, Pointer, Problem) -> UnsafeMutablePointer<CChar>?
    private let clear: @convention(c) (Pointer, Pointer, Pointer, Problem) -> CInt
    private let freePassword: @convention(c) (UnsafeMutablePointer<CChar>) -> Void
    private let disconnect: @convention(c) () -> Void
    private let newTable: @convention(c) (Pointer, Pointer) -> Pointer
    private let insert: @convention(c) (Pointer, Text, Text) -> CInt
    private let releaseTable: @convention(c) (Pointer) -> Void
    private let newCancellable: @convention(c) () -> Pointer
    private let cancelCancellable: @convention(c) (Pointer) -> Void
    private let release: @convention(c) (Pointer) -> Void
    private let freeError: @convention(c) (Pointer) -> Void
    private let openBus: @convention(c) (CInt, Pointer, Problem) -> Pointer?
    private let setExitsOnClose: @convention(c) (Pointer, CInt) -> Void
    private let hash: Pointer
    private let isEqual: Pointer
    /// A `SecretSchema`: the name of the items, and that each has a text `client`.
    private let schema: Pointer

    private init() throws(MissingFunction) {
        guard let library = DynamicLibrary("libsecret-1.so.0") else { throw MissingFunction() }
        // A search in a library goes on in those that it is linked with.
        func find<Function>(_ name: String) throws(MissingFunction) -> Function {
            guard let function = library.function(name, as: Function.self) else { throw MissingFunction() }
            return function
        }
        storePassword = try find("secret_password_storev_sync")
        lookUp = try find("secret_password_lookupv_sync")
        clear = try find("secret_password_clearv_sync")
        freePassword = try find("secret_password_free")
        disconnect = try find("secret_service_disconnect")
        newTable = try find("g_hash_table_new")
        insert = try find("g_hash_table_insert")
        releaseTable = try find("g_hash_table_unref")
        newCancellable = try find("g_cancellable_new")
        cancelCancellable = try find("g_cancellable_cancel")
        release = try find("g_object_unref")
        freeError = try find("g_error_free")
        openBus = try find("g_bus_get_sync")
        setExitsOnClose = try find("g_dbus_connection_set_exit_on_close")
        hash = try find("g_str_hash")
        isEqual = try find("g_str_equal")
        // Name, flags, 32 attributes with name and type, and 8 reserved members; 0 is a text, and no name ends the list.
        schema = .allocate(byteCount: 1_024, alignment: 8)
        schema.initializeMemory(as: UInt8.self, repeating: 0, count: 1_024)
        schema.storeBytes(of: strdup("org.latnetworking.Token"), as: Optional<UnsafeMutablePointer<CChar>>.self)
        schema.storeBytes(of: strdup("client"), toByteOffset: 16, as: Optional<UnsafeMutablePointer<CChar>>.self)
    }

    func makeCancellation() -> Cancellation { Cancellation(self) }

    func password(of client: String, _ cancellation: Cancellation) throws(Failure) -> String? {
        try call(client, cancellation) { attributes, problem in
            guard let text = lookUp(schema, attributes, cancellation.pointer, problem) else { return nil }
            defer { freePassword(text) }
            return String(cString: text)
        }
    }

    func store(
        _ password: String, as client: String, _ label: String, _ cancellation: Cancellation
    ) throws(Failure) {
        try call(client, cancellation) { attributes, problem in
            _ = storePassword(schema, attributes, nil, label, password, cancellation.pointer, problem)
        }
    }

    func remove(_ client: String, _ cancellation: Cancellation) throws(Failure) {
        try call(client, cancellation) { attributes, problem in
            _ = clear(schema, attributes, cancellation.pointer, problem)
        }
    }

    /// Calls a function with the attributes of an item.
    private func call<Value>(
        _ client: String, _ cancellation: Cancellation, _ work: (_ attributes: Pointer, Problem) -> Value
    ) throws(Failure) -> Value {
        var problem: Pointer?
        func check() throws(Failure) {
            guard let found = problem else { return }
            defer { freeError(found) }
            // The text is after the domain and the code, which have 4 bytes each.
            let text = found.load(fromByteOffset: 8, as: UnsafeMutablePointer<CChar>?.self)
            throw Failure(text: text.map { String(cString: $0) } ?? "unknown error")
        }
        // 2 is the bus of the session. With a main loop, GLib ends the process when it goes away, unless it is told not to.
        let bus = openBus(2, cancellation.pointer, &problem)
        try check()
        if let bus { setExitsOnClose(bus, 0) }
        defer {
            // A service that is kept would not be found again after it or its bus was started anew.
            disconnect()
            bus.map { release($0) }
        }
        let attributes = newTable(hash, isEqual)
        let (name, text) = (strdup("client"), strdup(client))
        defer {
            releaseTable(attributes)
            free(name)
            free(text)
        }
        guard let name, let text else { throw Failure(text: "out of memory") }
        _ = insert(attributes, name, text)
        let value = work(attributes, &problem)
        try check()
        return value
    }
}
