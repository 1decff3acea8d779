public import FoundationEssentials
public import HTTPCore
import LATClient
import Platform

extension Outbox {
    /// The limits of an outbox, and how it repeats requests.
    public struct Configuration: Hashable, Sendable {
        /// The largest number of requests that are sent at once. Default 4.
        public var limit = 4
        /// The largest number of entries, dead letters included. Default 100,000.
        public var maxCount = 100_000
        /// The largest number of bytes of all entries with their bodies and the answers that are kept. Files that an entry only
        /// refers to do not count. Default 1 GiB.
        public var maxSize: Int64 = 1 << 30
        /// The longest wait after the first failure of an entry; it doubles with each further one. Default 1 s.
        public var firstWait = Duration.seconds(1)
        /// The longest wait between two attempts. Default five minutes. A `Retry-After` may ask for more, up to a day.
        public var longestWait = Duration.seconds(300)
        /// The number of attempts after which an entry is given up. Default `nil`: none; only its expiry ends an entry that
        /// cannot be sent.
        public var maxAttempts: Int?
        /// Whether credentials of the caller are kept: in header fields, such as `Authorization`, and in the URL. Default
        /// `false`: they are refused, because they would be written to the disk and have become invalid when the request is
        /// sent. An authenticator or a header provider of the manager adds them at that time.
        public var keepsCredentials = false

        /// Makes the default configuration.
        public init() {}
    }

    /// What happens to the file of a body.
    public enum FileKeeping: String, Hashable, Sendable, CaseIterable {
        /// The file is copied into the folder. The original may be changed or removed.
        case copied
        /// The folder gets a hard link to the file, which takes no room. The original may be removed or replaced, but not
        /// written: a change of its content changes what is sent. Folder and file have to be on the same file system.
        case linked
        /// Only the path is kept, and what the file contains when it is sent counts.
        case referenced
    }

    /// The state of an entry.
    public enum State: String, Hashable, Sendable, CaseIterable {
        /// It waits to be sent, or is being sent.
        case waiting
        /// The server has accepted it, and its handler has not ended yet.
        case answered
        /// The server refused it: dead letter.
        case refused
        /// It expired before it was sent: dead letter.
        case expired
        /// It was attempted as often as the configuration allows: dead letter.
        case givenUp

        /// Whether the entry stays until it is retried or dropped.
        public var isDead: Bool { self == .refused || self == .expired || self == .givenUp }

        var number: Int64 {
            switch self {
            case .waiting: 0
            case .answered: 1
            case .refused: 2
            case .expired: 3
            case .givenUp: 4
            }
        }

        init(number: Int64) { self = Self.allCases.first { $0.number == number } ?? .refused }
    }

    /// A request in the outbox.
    public struct Entry: Sendable, Identifiable, Hashable {
        /// The number in its outbox, which is never used again.
        public let id: Int64
        /// The state.
        public internal(set) var state: State
        /// The method; `nil` for that of the row.
        public let method: String?
        /// The URL, or the name of the row.
        public let address: String
        /// Entries of one group are sent one after the other; `nil` for an entry that is sent whenever there is room.
        public let group: String?
        /// The key by which a newer entry replaces this one while it waits.
        public let supersedes: String?
        /// The tag of the call.
        public let tag: String?
        /// The name of the handler of the answer.
        public let handler: String?
        /// The priority among the entries that may be sent.
        public let priority: RequestPriority
        /// The value of `Idempotency-Key`, the same for all attempts.
        public let idempotencyKey: String
        /// The bytes of its row and its body, and of the answer that is kept.
        public let size: Int64
        /// When it was added.
        public let added: Date
        /// When it expires; `nil` for never.
        public let expires: Date?
        /// How often it was sent.
        public internal(set) var attempts: Int
        /// When it is sent again after a failure; `nil` if it is not waiting for that.
        public internal(set) var nextAttempt: Date?
        /// Why it waits or what ended it; `nil` if it was not attempted yet.
        public internal(set) var reason: String?
        /// The status of the last response; `nil` without one.
        public internal(set) var status: Int?
    }

    /// A change of an outbox. It is reported by the process that makes it: additions and removals by the one that asks for
    /// them, results by the sender.
    public enum Change: Sendable {
        /// An entry is on the disk.
        case added(Entry)
        /// A newer entry with the same key has replaced a waiting one.
        case superseded(Entry)
        /// An attempt has failed, and the entry waits for the next one.
        case failed(Entry, NetworkError)
        /// The server has accepted an entry.
        case succeeded(Entry, HTTPResponse)
        /// An entry has become a dead letter.
        case died(Entry, NetworkError)
        /// An entry was dropped.
        case dropped(Entry)
        /// A dead letter waits again.
        case retried(Entry)
        /// A handler threw an error, and is called again later.
        case handlerFailed(Entry, any Error)
        /// The store could not be written, or a damaged one was set aside. The outbox goes on as well as it can.
        case trouble(NetworkError)
        /// This process has become the sender of the folder, or has stopped being it.
        case isSender(Bool)
    }

    /// The state of an outbox in numbers.
    public struct Load: Hashable, Sendable {
        /// The entries that wait, those being sent included.
        public var waiting = 0
        /// The requests of this process that are in flight.
        public var sending = 0
        /// The accepted entries whose handler has not ended.
        public var answered = 0
        /// The dead letters.
        public var dead = 0
        /// The bytes of all entries.
        public var size: Int64 = 0
        /// The age of the oldest waiting entry; `nil` without one.
        public var oldest: Duration?
        /// The entries that this process has sent successfully.
        public var sent = 0
        /// The attempts of this process that failed.
        public var failed = 0
        /// Whether this process sends.
        public var isSender = false
        /// The process that sends; `nil` if none does.
        public var sender: Int?
    }

    /// Why an entry could not be added or changed: `underlying` of the error of kind
    /// ``NetworkError/Kind/storage`` that an outbox throws.
    public enum Failure: Error, Hashable, Sendable {
        /// The outbox has as many entries as ``Configuration/maxCount`` allows.
        case tooMany(limit: Int)
        /// The entries are as large as ``Configuration/maxSize`` allows.
        case tooLarge(limit: Int64)
        /// The disk, or the user's quota, is full.
        case diskFull
        /// The file of a body cannot be read, copied or linked.
        case file(path: String)
        /// A dead letter has the idempotency key of the request. Retry or drop it.
        case deadLetter(id: Entry.ID)
        /// The store cannot be read or written.
        case store
    }
}

extension NetworkError {
    /// Why an outbox could not keep an entry; `nil` for other errors.
    public var outboxFailure: Outbox.Failure? { underlying as? Outbox.Failure }

    static func outbox(_ failure: Outbox.Failure, _ message: String) -> NetworkError {
        NetworkError(.storage, message: message, underlying: failure)
    }

    /// The error of a file operation of an outbox.
    static func outboxFile(_ action: String, _ path: String, _ code: Int32) -> NetworkError {
        let error = SystemError(code: code)
        return .outbox(
            error.isFull ? .diskFull : .file(path: path),
            "\(URLText.visible(path)) cannot be \(action): \(error.text); "
                + (error.isFull ? "make room, and add the entry again" : "check the file and the permissions"))
    }
}

extension Outbox.Item {
    /// Whether it may need a file in the folder.
    var mayHaveFiles: Bool {
        switch content {
        case .entity: true
        case .request(let request):
            switch request.body?.content {
            case nil, .parameters: false
            case .data(let data): data.count > BodyWriter.inlineLimit
            case .encoded, .file, .stream, .multipart: true
            }
        }
    }
}
