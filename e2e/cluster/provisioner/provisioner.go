// Package provisioner gives PersistentVolumeClaims of a one-node cluster
// directories of that node.
//
// It differs from a hostPath class in one point that matters to pods without
// root: volumes are of type `local`, so the kubelet applies fsGroup to them.
package provisioner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

const (
	// Name is the `provisioner` of the StorageClass that this package serves.
	Name = "slipway.dev/local"

	annotationProvisioner   = "volume.kubernetes.io/storage-provisioner"
	annotationSelectedNode  = "volume.kubernetes.io/selected-node"
	annotationProvisionedBy = "pv.kubernetes.io/provisioned-by"
)

// Provisioner makes and removes the directories below Root.
type Provisioner struct {
	Volumes typedcorev1.PersistentVolumeInterface
	// Root is the folder of the node that holds one directory per volume.
	Root string
}

// wants says whether the claim is waiting for this provisioner.
//
// The class binds on first use, so the scheduler's choice of a node is part of
// the question: before it the claim may still be matched to another volume.
func wants(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeName == "" &&
		claim.DeletionTimestamp == nil &&
		claim.Annotations[annotationProvisioner] == Name &&
		claim.Annotations[annotationSelectedNode] != ""
}

// spent says whether the volume is ours and its claim is gone for good.
func spent(volume *corev1.PersistentVolume) bool {
	return volume.Annotations[annotationProvisionedBy] == Name &&
		volume.Status.Phase == corev1.VolumeReleased &&
		volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete &&
		volume.DeletionTimestamp == nil
}

// volumeFor describes the volume of a claim; both derive their name from the
// claim's UID, which makes provisioning idempotent.
func volumeFor(claim *corev1.PersistentVolumeClaim, root string) *corev1.PersistentVolume {
	name := "pvc-" + string(claim.UID)
	mode := corev1.PersistentVolumeFilesystem
	class := ""
	if claim.Spec.StorageClassName != nil {
		class = *claim.Spec.StorageClassName
	}
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{annotationProvisionedBy: Name},
		},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			AccessModes:                   claim.Spec.AccessModes,
			VolumeMode:                    &mode,
			StorageClassName:              class,
			Capacity: corev1.ResourceList{
				corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage],
			},
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1",
				Kind:       "PersistentVolumeClaim",
				Namespace:  claim.Namespace,
				Name:       claim.Name,
				UID:        claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				Local: &corev1.LocalVolumeSource{Path: filepath.Join(root, name)},
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: onNode(claim.Annotations[annotationSelectedNode])},
		},
	}
}

func onNode(name string) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key:      corev1.LabelHostname,
			Operator: corev1.NodeSelectorOpIn,
			Values:   []string{name},
		}},
	}}}
}

// Provision gives the claim its directory and volume if it waits for one.
func (p Provisioner) Provision(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	if !wants(claim) {
		return nil
	}
	if block := claim.Spec.VolumeMode; block != nil && *block == corev1.PersistentVolumeBlock {
		return fmt.Errorf("claim %s/%s: volumeMode Block is not available here; use Filesystem", claim.Namespace, claim.Name)
	}
	volume := volumeFor(claim, p.Root)
	path := volume.Spec.Local.Path
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("make the directory of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	// Pods choose their own users; the umask must not decide for them.
	if err := os.Chmod(path, 0o777); err != nil {
		return fmt.Errorf("open the directory of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	_, err := p.Volumes.Create(ctx, volume, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the volume of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

// Reclaim removes a volume whose claim is gone, the directory first: a volume
// object without a directory can be retried, the reverse would leak.
func (p Provisioner) Reclaim(ctx context.Context, volume *corev1.PersistentVolume) error {
	if !spent(volume) {
		return nil
	}
	if volume.Spec.Local == nil || filepath.Dir(volume.Spec.Local.Path) != filepath.Clean(p.Root) {
		return errors.New("volume " + volume.Name + " does not lie in " + p.Root + "; not removed")
	}
	if err := os.RemoveAll(volume.Spec.Local.Path); err != nil {
		return fmt.Errorf("remove the directory of volume %s: %w", volume.Name, err)
	}
	err := p.Volumes.Delete(ctx, volume.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete volume %s: %w", volume.Name, err)
	}
	return nil
}
