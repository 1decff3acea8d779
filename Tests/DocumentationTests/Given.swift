import FoundationEssentials
import LATNetworking
import LATStorage
import LATTesting
import ResponseCache

// Values and types of an app that the samples of the pages use without declaring them. A sample may declare one of these
// names itself. What only one page needs is in a comment `<!-- given … -->` of that page. Except for those of Recipes.md,
// samples are compiled but never run, so only the types matter here.

/// A value that is never used.
func given<Value>() -> Value { preconditionFailure("samples are not run") }

nonisolated(unsafe) var configuration = CentralRequestManager.Configuration()
nonisolated(unsafe) var c = CentralRequestManager.Configuration()
nonisolated(unsafe) var request = HTTPRequest("GET", url)
let central = CentralRequestManager.shared
let manager = CentralRequestManager.shared
let url = "https://api.example.org/"
let task: RequestTask = central.startRequest("GET", url, success: { _, _ in }, failure: { _, _ in })
let upload = central.upload(url, files: photos)
let download = central.download(url, to: "/tmp/big.iso")

let error = NetworkError(.other, message: "")
let incoming = HTTPRequest("GET", url)
nonisolated(unsafe) let response = HTTPResponse(status: 200, url: url)

let server = given() as MockServer
let client = Client()
let store = given() as ObjectStore
let tasks = [task]
let table = given() as DomainTable
let digest = (value: "", name: "")
let entry = CacheEntry(
    key: CacheKey(primary: "a"), method: "GET", url: url, status: 200, headers: [:], requestTime: Date(),
    responseTime: Date())

let data = Data()
let old = data, new = data, newest = data
let png = data
let photos: [UploadFile] = []
let rows = AsyncStream<Data> { $0.finish() }
func makeRows() -> AsyncStream<Data> { rows }
let key = data, secret = data
let password = "open sesame"
let pem = "", publicPEM = ""
let path = "/tmp/file"

let tokens = Tokens()
let session = Session(token: "")
let profile = Profile()
let ids = [1, 2, 3]
let order = Order(number: 7)
let user = User(id: 1, name: "Ada", age: 36)
let users = [user]
let query = "{ user }"
let cursor: String? = nil
let filter = ["year": 2025]
let variables: JSONValue.Object = ["first": 10, "after": cursor]
let changes = AsyncStream<Order> { nil }
let batch = RequestBatch<Quote>()

/// Shows a value to the user of the app.
func show(_ value: some Sendable) {}

func sign(_ request: HTTPRequest) -> String { request.url }

/// Runs the server of the program until it ends.
func serve() async {}
