import { DatabaseSync } from 'node:sqlite';
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';

/**
 * The writing half of `profile-sqlite-rows.ts`: reads the document of each requested row and writes it back, in one
 * transaction at a time.
 */
if (!parentPort) throw new Error('bare-rows-thread.ts runs as a worker thread');
const port = parentPort;

const database = new DatabaseSync(String(workerData));
database.exec(`
  PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
  PRAGMA wal_autocheckpoint = 4000; PRAGMA cache_size = -65536;
`);
const read = database.prepare('SELECT body FROM rows WHERE name = ?');
const write = database.prepare('UPDATE rows SET body = ? WHERE name = ?');

port.on('message', (first: string) => {
  const groups = [first];
  for (let next = receiveMessageOnPort(port); next !== undefined; next = receiveMessageOnPort(port))
    groups.push(next.message);
  database.exec('BEGIN IMMEDIATE');
  const answers = groups.map((group) =>
    (JSON.parse(group) as readonly { name: string }[]).map(({ name }) => {
      const document = JSON.parse(String(read.get(name)?.body)) as { version: number };
      document.version += 1;
      const body = JSON.stringify(document);
      write.run(body, name);
      return body;
    }),
  );
  database.exec('COMMIT');
  for (const bodies of answers) port.postMessage(bodies);
});
