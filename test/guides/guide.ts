import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** A block of code of a guide. */
export interface Block {
  /** The word behind its opening fence, e.g. `sh`; and what stands behind that. */
  readonly language: string;
  readonly name: string;
  readonly code: string;
}

/** The blocks of `docs/<name>.md`, in order, with each address of the guide replaced by that of the test. */
export function blocksOf(name: string, addresses: Readonly<Record<string, string>>): readonly Block[] {
  let text = readFileSync(new URL(`../../docs/${name}.md`, import.meta.url), 'utf8');
  for (const [shown, real] of Object.entries(addresses)) text = text.replaceAll(shown, real);
  return [...text.matchAll(/^```(\w+) ?(.*)\n([\s\S]*?)^```$/gm)].map(
    ([, language = '', name = '', code = '']) => ({ language, name, code }),
  );
}

/** A port of this machine that nobody listens on. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('a TCP server has a port');
  return address.port;
}

/** A shell in the folder of the project, as a reader has it: what one block sets, the next one knows. */
export class Shell {
  readonly #bash: ChildProcess;
  #output = '';
  #blocks = 0;

  constructor(env: Readonly<Record<string, string>>) {
    this.#bash = spawn('bash', ['-s'], { cwd: ROOT, env: { ...process.env, ...env }, stdio: 'pipe' });
    for (const stream of [this.#bash.stdout, this.#bash.stderr])
      stream?.on('data', (chunk: Buffer) => {
        this.#output += chunk.toString('utf8');
      });
  }

  /** Runs a block; resolves to the lines it printed, those of errors too. */
  async run(code: string): Promise<readonly string[]> {
    const end = `block ${++this.#blocks} has ended`;
    const before = this.#output.length;
    this.#bash.stdin?.write(`${code}\necho; echo '${end}'\n`);
    const printed = () => this.#output.slice(before);
    while (!printed().includes(end)) {
      if (this.#bash.exitCode !== null) throw new Error(`the shell has ended: ${printed()}`);
      await Promise.race([
        once(this.#bash.stdout as NodeJS.ReadableStream, 'data'),
        once(this.#bash, 'exit'),
      ]);
    }
    return printed()
      .split('\n')
      .filter((line) => line !== '' && line !== end);
  }

  async close(): Promise<void> {
    this.#bash.stdin?.end();
    if (this.#bash.exitCode === null) await once(this.#bash, 'exit');
  }
}
