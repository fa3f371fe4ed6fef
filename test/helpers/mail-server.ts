import type { Socket } from 'node:net';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';
import { freePort } from '../engines/engine-process.ts';
import { selfSignedCertificate } from './certificate.ts';

/** A mail as received by the server. */
export interface TakenMail {
  readonly from: string;
  readonly to: readonly string[];
  /** Headers by name in lower case, unfolded; a header that came twice has both values in a list. */
  readonly headers: Readonly<Record<string, readonly string[]>>;
  readonly text: string;
  readonly encrypted: boolean;
  /** The signed-in user. */
  readonly user: string | undefined;
}

/** A step of the protocol at which the server may refuse. */
export type MailStep = 'connect' | 'mail' | 'recipient' | 'data';

export interface MailServerOptions {
  /** TLS from the first byte. Default: by STARTTLS. */
  readonly secure?: boolean;
  /** Offers no STARTTLS. */
  readonly plain?: boolean;
  /** The user that may send; default: any client. */
  readonly user?: { readonly username: string; readonly password: string };
}

/** A real SMTP server on this machine. */
export interface MailServer {
  readonly port: number;
  /** The PEM text that verifies its certificate. */
  readonly ca: string;
  readonly taken: readonly TakenMail[];
  /** The number of attempts to sign in and to send. */
  readonly tried: { signIns: number; mails: number };
  /** The refusal from now on, `<code> <text>`, or `cut` to end the connection; undefined: none. */
  refuse(refusal: { readonly step: MailStep; readonly reply: string } | undefined): void;
  stop(): Promise<void>;
  /** Restarts it at the same address after `stop`. */
  start(): Promise<void>;
}

export async function startMailServer(options: MailServerOptions = {}): Promise<MailServer> {
  const { secure = false, plain = false, user } = options;
  const certificate = selfSignedCertificate();
  const taken: TakenMail[] = [];
  const sockets = new Set<Socket>();
  const tried = { signIns: 0, mails: 0 };
  let refusal: { readonly step: MailStep; readonly reply: string } | undefined;
  const refusedAt = (step: MailStep) => {
    if (refusal?.step !== step) return undefined;
    if (refusal.reply === 'cut') for (const socket of sockets) socket.destroy();
    const [code, ...words] = refusal.reply.split(' ');
    return Object.assign(new Error(words.join(' ')), { responseCode: Number(code) });
  };
  const behaviour: SMTPServerOptions = {
    ...certificate,
    secure,
    logger: false,
    // Otherwise it greets a client after it asked a name server for the client's name, or waited 1.5 s.
    disableReverseLookup: true,
    closeTimeout: 100,
    authOptional: user === undefined,
    disabledCommands: [...(plain ? ['STARTTLS'] : []), ...(user === undefined ? ['AUTH'] : [])],
    onConnect: (_session, done) => done(refusedAt('connect')),
    onAuth: ({ username, password }, _session, done) => {
      tried.signIns += 1;
      if (username === user?.username && password === user?.password) done(null, { user: username });
      else done(Object.assign(new Error(`5.7.8 ${username}: authentication failed`), { responseCode: 535 }));
    },
    onMailFrom: (_address, _session, done) => {
      tried.mails += 1;
      done(refusedAt('mail'));
    },
    onRcptTo: (_address, _session, done) => done(refusedAt('recipient')),
    onData: (stream, { envelope, secure: encrypted, user: sender }, done) => {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('end', () => {
        const refused = refusedAt('data');
        if (refused !== undefined) return done(refused);
        taken.push({
          from: envelope.mailFrom === false ? '' : envelope.mailFrom.address,
          to: envelope.rcptTo.map(({ address }) => address),
          ...parsed(Buffer.concat(chunks).toString('utf8')),
          encrypted,
          user: typeof sender === 'string' ? sender : undefined,
        });
        done();
      });
    },
  };
  // Unlike a port that the system gives, no other server gets it while this one is stopped.
  const port = await freePort();
  let server = await listening(behaviour, port, sockets);
  return {
    port,
    ca: certificate.cert,
    taken,
    tried,
    refuse(next) {
      refusal = next;
    },
    stop: () => server.stop(),
    async start() {
      server = await listening(behaviour, port, sockets);
    },
  };
}

async function listening(options: SMTPServerOptions, port: number, sockets: Set<Socket>) {
  const server = new SMTPServer(options);
  server.on('error', () => {}); // a connection was cut: the test that waits for the mail reports it
  server.server.on('connection', (connection: Socket) => {
    sockets.add(connection);
    connection.once('close', () => sockets.delete(connection));
  });
  const socket = server.listen(port, '127.0.0.1');
  await new Promise((resolve, reject) => socket.once('listening', resolve).once('error', reject));
  return { stop: () => new Promise<void>((resolve) => server.close(() => resolve())) };
}

function parsed(message: string): Pick<TakenMail, 'headers' | 'text'> {
  const [head = '', ...body] = message.split('\r\n\r\n');
  const headers: Record<string, string[]> = {};
  for (const line of head.replace(/\r\n[ \t]+/g, ' ').split('\r\n')) {
    const at = line.indexOf(':');
    const name = line.slice(0, at).toLowerCase();
    headers[name] = [...(headers[name] ?? []), line.slice(at + 1).trim()];
  }
  return { headers, text: body.join('\r\n\r\n') };
}
