import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/** Iceberg's own REST catalog over SQLite in memory, on this machine alone. The folder of its tables is its only argument; it prints its port. */
public final class RestCatalog {
    public static void main(String[] arguments) throws Exception {
        Map<String, String> properties = Map.of(
            "catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog",
            "uri", "jdbc:sqlite::memory:",
            "jdbc.schema-version", "V1",
            // One connection: each of them has a database of its own in memory.
            "clients", "1",
            "warehouse", arguments[0]);
        RESTCatalogAdapter adapter =
            new RESTCatalogAdapter(CatalogUtil.buildIcebergCatalog("tests", properties, new Configuration()));
        ServletContextHandler handler = new ServletContextHandler();
        handler.addServlet(new ServletHolder(new RESTCatalogServlet(adapter)), "/*");
        Server server = new Server(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
        server.setHandler(handler);
        server.start();
        System.out.println(((ServerConnector) server.getConnectors()[0]).getLocalPort());
        server.join();
    }
}
