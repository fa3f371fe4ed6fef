import { CALLBACK_CHANNEL } from './callback-channel.ts';

/**
 * Runs in the window or frame of a sign-in. The code in the URL is worthless without the verifier of the page that began it.
 */
const channel = new BroadcastChannel(CALLBACK_CHANNEL);
channel.postMessage(location.href);
channel.close();
history.replaceState(null, '', location.pathname);
window.close();
