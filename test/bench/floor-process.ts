import { appendFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { benchBatch } from './event.ts';

// The floor of the embedded pipeline: one thread that parses the bodies of the same events, stores each as often as it is
// in the log (received, accepted, delivered), one transaction a body, and appends them to a file. Takes the number of events
// and the events of a body; prints its processor time, us an event.
const [events = 0, batch = 1] = process.argv.slice(2).map(Number);
const folder = mkdtempSync(join(tmpdir(), 'tributary-floor-'));
const database = new DatabaseSync(join(folder, 'log.sqlite'));
database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL');
const topics = ['received', 'accepted', 'delivered'];
for (const topic of topics)
  database.exec(`CREATE TABLE ${topic} (offset INTEGER PRIMARY KEY, key TEXT, value TEXT)`);
const inserts = topics.map((topic) => database.prepare(`INSERT INTO ${topic} (key, value) VALUES (?, ?)`));
const body = JSON.stringify(benchBatch(batch));

function store(): void {
  const { batch: parsed } = JSON.parse(body) as { batch: readonly { user_id: string }[] };
  database.exec('BEGIN IMMEDIATE');
  for (const event of parsed) {
    const value = JSON.stringify(event);
    for (const insert of inserts) insert.run(event.user_id, value);
  }
  database.exec('COMMIT');
  appendFileSync(join(folder, 'events.ndjson'), parsed.map((event) => `${JSON.stringify(event)}\n`).join(''));
}

for (let done = 0; done < events / 4; done += batch) store(); // compiles what is measured
const before = process.cpuUsage();
for (let done = 0; done < events; done += batch) store();
const { user, system } = process.cpuUsage(before);
database.close();
rmSync(folder, { recursive: true });
process.stdout.write(`${JSON.stringify({ us: (user + system) / events })}\n`);
