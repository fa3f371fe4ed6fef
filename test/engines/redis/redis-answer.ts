import { once } from 'node:events';
import { connect } from 'node:net';

/** The server's reply to one command: a status or an error with its first character, or a string's text. */
export async function redisAnswer(url: string, command: string, timeoutMs = 5_000): Promise<string> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port) });
  try {
    socket.write(`${command}\r\n`);
    const [answer] = await once(socket, 'data', { signal: AbortSignal.timeout(timeoutMs) });
    const [head = '', body = ''] = String(answer).split('\r\n');
    return head.startsWith('$') ? body : head;
  } catch (cause) {
    throw new Error(`no answer to ${command}`, { cause });
  } finally {
    socket.destroy();
  }
}
