import { CALLBACK_CHANNEL } from './callback-channel.ts';

/** The URL that another origin sends the browser back to, once it has answered the request of this state. */
export function callbackOf(state: string, signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const channel = new BroadcastChannel(CALLBACK_CHANNEL);
    const end = () => channel.close();
    signal.addEventListener('abort', () => {
      end();
      reject(signal.reason);
    });
    channel.addEventListener('message', ({ data }: MessageEvent<unknown>) => {
      if (typeof data !== 'string' || new URL(data).searchParams.get('state') !== state) return;
      end();
      resolve(data);
    });
  });
}

/** Opens the window of a page of another origin. Must be called while a click is handled: browsers block other windows. */
export function openWindow(): Window {
  const opened = window.open('about:blank', '_blank', 'popup,width=520,height=720');
  if (opened === null)
    throw new Error('The browser blocked the window of the sign-in. Allow it, and try again.');
  return opened;
}
