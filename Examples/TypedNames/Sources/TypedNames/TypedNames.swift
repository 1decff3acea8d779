import LATNetworking

/// Prints what the build plugin made of `Config/domains.json5`, and where each call goes. Run it in this folder:
/// `swift run TypedNames`, or `LAT_ENVIRONMENT=dev swift run TypedNames`.
@main
struct TypedNames {
    static func main() {
        do {
            let table = try DomainTable(contentsOf: "Config/domains.json5")

            // A mistyped member does not compile; try `ServerName.itemDetial`.
            let detail = try table.resolve(server: .itemDetail)
            print("ServerName.itemDetail is \"\(ServerName.itemDetail)\" and goes to \(try detail.url(["id": "42"]))")
            print("DomainName.shop is \"\(DomainName.shop)\"")

            for server in ServerName.all {
                print()
                print(table.explain(server.rawValue))
            }
        } catch {
            print(error)
        }
    }
}
