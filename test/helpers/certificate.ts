import { generateKeyPairSync, sign } from 'node:crypto';

const DAY_MS = 86_400_000;

/** A key and a self-signed certificate, as PEM: valid for a day, for `localhost` and 127.0.0.1. */
export function selfSignedCertificate(): { readonly key: string; readonly cert: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const name = sequence(set(sequence(oid([0x55, 0x04, 0x03]), tagged(0x0c, Buffer.from('localhost')))));
  const signedWith = sequence(oid([0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02])); // ECDSA with SHA-256
  const now = Date.now();
  const told = sequence(
    tagged(0xa0, integer(2)), // version 3
    integer(1),
    signedWith,
    name,
    sequence(time(now - DAY_MS / 24), time(now + DAY_MS)),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    tagged(0xa3, sequence(basicConstraints(), alternativeNames())),
  );
  const signature = tagged(0x03, Buffer.from([0]), sign('sha256', told, privateKey));
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    cert: pem(sequence(told, signedWith, signature)),
  };
}

function basicConstraints(): Buffer {
  const isAuthority = sequence(tagged(0x01, Buffer.from([0xff])));
  return sequence(oid([0x55, 0x1d, 0x13]), tagged(0x04, isAuthority));
}

function alternativeNames(): Buffer {
  const names = sequence(tagged(0x82, Buffer.from('localhost')), tagged(0x87, Buffer.from([127, 0, 0, 1])));
  return sequence(oid([0x55, 0x1d, 0x11]), tagged(0x04, names));
}

/** A value of DER: its tag, its length, its contents. */
function tagged(tag: number, ...contents: readonly Buffer[]): Buffer {
  const content = Buffer.concat(contents);
  const { length } = content;
  const size =
    length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}

const sequence = (...contents: readonly Buffer[]) => tagged(0x30, ...contents);
const set = (...contents: readonly Buffer[]) => tagged(0x31, ...contents);
const oid = (bytes: readonly number[]) => tagged(0x06, Buffer.from(bytes));
const integer = (value: number) => tagged(0x02, Buffer.from([value]));

function time(ms: number): Buffer {
  const digits = new Date(ms).toISOString().replace(/\D/g, '').slice(2, 14);
  return tagged(0x17, Buffer.from(`${digits}Z`));
}

function pem(der: Buffer): string {
  const lines = der.toString('base64').match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`;
}
